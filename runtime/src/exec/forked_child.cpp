// SPDX-License-Identifier: Apache-2.0
#include "forked_child.hpp"

#include <malloc.h>

#include <cstdlib>
#include <mutex>
#include <utility>

#include "spillway/runtime/exec/last_failure.hpp"
#include "spillway/runtime/exec/out_of_budget.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

std::byte* ForkedChild::allocate(std::size_t bytes) {
  void* pointer = nullptr;
  const bool of_device = memory_.stream_uses() != nullptr;
  if (of_device || ::posix_memalign(&pointer, 64, bytes) != 0) {
    OutOfBudget::Facts facts;
    facts.need = {bytes};
    facts.refusal =
        of_device
            ? MemoryRefusal{.by = "the device",
                            .reason = "It is a forked process, which has no use of the device."}
            : MemoryRefusal{.by = "the kernel",
                            .reason = "It is a forked process, whose memory comes from malloc."};
    facts.also_known_as = framework_.shortage_words("").also_known_as;
    throw OutOfBudget(std::move(facts));
  }
  budget_.hold_in_child(static_cast<std::int64_t>(::malloc_usable_size(pointer)));
  return static_cast<std::byte*>(pointer);
}

// The parent's memory is not the child's to reuse; what was allocated here came from malloc.
void ForkedChild::free(std::byte* pointer) noexcept {
  if (memory_.find(pointer) != nullptr) return;
  budget_.hold_in_child(-static_cast<std::int64_t>(::malloc_usable_size(pointer)));
  std::free(pointer);
}

bool ForkedChild::use(StorageRecord& record) {
  const std::lock_guard lock(mutex_.mutex());
  const ResidencyState state = record.state.load();
  if (state == ResidencyState::kDropped || record.recomputing) {
    set_last_failure(
        "Spillway: a storage was dropped, and there was no room to make it again "
        "before the process forked",
        FailureKind::kUnreadable);
    return false;
  }
  if (state != ResidencyState::kOnDisk && state != ResidencyState::kOnHost) return true;
  if (!mover_.read_in_child(record)) {
    set_last_failure("Spillway: a forked process could not read an evicted storage back",
                     FailureKind::kUnreadable);
    return false;
  }
  record.state.store(ResidencyState::kResident);
  budget_.hold_in_child(static_cast<std::int64_t>(record.bytes.count));  // and never let go
  if (void* owner = record.owner.load()) framework_.grant(owner, record);
  return true;
}

}  // namespace spillway::runtime
