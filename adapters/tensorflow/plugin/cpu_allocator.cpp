// SPDX-License-Identifier: Apache-2.0
#include "cpu_allocator.hpp"

#include <optional>
#include <string>

#include "session.hpp"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/allocator_registry.h"
#include "unchecked_callers.hpp"

namespace spillway::tf {
namespace {

// TensorFlow's own has 100, oneDNN's 200.
constexpr int kPriority = 300;

class CpuAllocator : public tsl::Allocator {
 public:
  // The framework's error names the op, and the allocator by this: so the figures stand beside it.
  std::string Name() override {
    const std::string failure = BudgetedMemory::last_failure();
    return failure.empty() ? "spillway" : "spillway (" + failure + ")";
  }

  void* AllocateRaw(size_t alignment, size_t bytes) override {
    Session& session = *Session::get();
    std::byte* const pointer = session.memory().allocate({bytes}, alignment);
    if (pointer != nullptr) return pointer;
    const std::string reason = session.memory().reason();
    session.troubles().note_failure(reason);
    if (caller_checks()) return nullptr;
    session.troubles().note_overshoot(reason);
    return session.memory().allocate_beyond({bytes}, alignment);
  }

  void DeallocateRaw(void* pointer) override {
    Session::get()->memory().free(static_cast<std::byte*>(pointer));
  }

  std::optional<tsl::AllocatorStats> GetStats() override {
    const MemoryUsage usage = Session::get()->memory().usage();
    tsl::AllocatorStats stats;
    stats.num_allocs = static_cast<int64_t>(usage.allocations);
    stats.bytes_in_use = static_cast<int64_t>(usage.live.count);
    stats.peak_bytes_in_use = static_cast<int64_t>(usage.peak_live.count);
    stats.bytes_limit = static_cast<int64_t>(usage.budget.count);
    stats.pool_bytes = static_cast<int64_t>(usage.held.count);
    stats.peak_pool_bytes = static_cast<int64_t>(usage.peak_held.count);
    return stats;
  }

  bool ClearStats() override {
    Session::get()->memory().clear_peak();
    return true;
  }

  tsl::AllocatorMemoryType GetMemoryType() const override {
    return tsl::AllocatorMemoryType::kHostPageable;
  }
};

// For a framework that puts an allocator of its own upon ours, which with ours it does not.
class CpuSubAllocator : public tsl::SubAllocator {
 public:
  CpuSubAllocator() : SubAllocator({}, {}) {}
  void* Alloc(size_t alignment, size_t bytes, size_t* received) override {
    *received = bytes;
    return allocator_.AllocateRaw(alignment, bytes);
  }
  void Free(void* pointer, size_t /*bytes*/) override { allocator_.DeallocateRaw(pointer); }
  bool SupportsCoalescing() const override { return false; }

 private:
  CpuAllocator allocator_;
};

class CpuAllocatorFactory : public tsl::AllocatorFactory {
 public:
  tsl::Allocator* CreateAllocator() override { return new CpuAllocator; }
  tsl::SubAllocator* CreateSubAllocator(int /*numa_node*/) override { return new CpuSubAllocator; }
};

}  // namespace

void register_cpu_allocator() {
  tsl::AllocatorFactoryRegistry::singleton()->Register(__FILE__, __LINE__, "spillway", kPriority,
                                                       new CpuAllocatorFactory);
}

}  // namespace spillway::tf
