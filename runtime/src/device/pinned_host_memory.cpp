// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/pinned_host_memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

PinnedHostMemory::PinnedHostMemory(StreamClock& clock, Bytes limit, Bytes slab)
    : clock_(clock), slab_bytes_(slab), budget_(limit) {}

PinnedHostMemory::~PinnedHostMemory() {
  DeviceDriver& driver = clock_.driver();
  static_cast<void>(driver.synchronize());  // a lost device reads nothing any more
  for (auto& [base, slab] : slabs_) {
    if (slab.locked) static_cast<void>(driver.unregister_host(base));
    munmap(base, slab.bytes.count);
  }
}

std::byte* PinnedHostMemory::take(std::byte* base, Slab& slab, Bytes bytes) {
  if (slab.extents.end_after(bytes) > slab.bytes.count) return nullptr;
  const Extent extent = slab.extents.allocate(bytes);
  used_ += Bytes{extent.bytes};
  return base + extent.offset;
}

void PinnedHostMemory::set_limit(Bytes limit) {
  const std::lock_guard lock(mutex_);
  budget_.set_limit(limit);
}

std::byte* PinnedHostMemory::allocate(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  settle_locked();
  for (auto& [base, slab] : slabs_) {
    if (std::byte* const memory = take(base, slab, bytes)) return memory;
  }
  return add_slab(bytes);
}

std::byte* PinnedHostMemory::add_slab(Bytes bytes) {
  // A budget that is no multiple of a slab ends in a smaller one.
  Bytes wanted = std::max(slab_bytes_, round_up(bytes, kExtentGranule));
  const Bytes rest{budget_.available().count / kExtentGranule * kExtentGranule};
  if (wanted > rest && rest >= bytes) wanted = rest;
  auto promise = budget_.try_reserve(wanted, Overbooking::kRefuse);
  if (!promise) return nullptr;
  void* const memory =
      mmap(nullptr, wanted.count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A forked child has no use of it, and a kernel would copy each page that a device has locked.
  static_cast<void>(madvise(memory, wanted.count, MADV_DONTFORK));
  auto* const base = static_cast<std::byte*>(memory);
  const DeviceStatus status = clock_.driver().register_host(base, wanted);
  if (status.outcome == DeviceOutcome::kLost) {
    munmap(memory, wanted.count);
    expect_done(clock_.driver(), status, "page-locking memory");
  }
  if (!status.done() && refusal_.empty()) {
    refusal_ = fmt::format(
        "{} of memory could not be page-locked: {}. Copies of it hold the program up. See the "
        "memory limit of the container, ulimit -l, and SPILLWAY_HOST_BUDGET.",
        to_string(wanted), clock_.driver().text(status));
    warn_once(refusal_);
  }
  promise->spend(wanted);
  Slab& slab = slabs_[base];
  slab.bytes = wanted;
  slab.locked = status.done();
  return take(base, slab, bytes);
}

void PinnedHostMemory::note_use(const std::byte* memory, const Fence& fence) {
  const std::lock_guard lock(mutex_);
  in_use_[memory].join(fence);
}

HostPages PinnedHostMemory::give_back(std::byte* memory, Bytes bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto used = in_use_.find(memory);
  if (used == in_use_.end()) {
    free_now(memory, bytes);
  } else {
    waiting_.push_back({memory, bytes, used->second});
    in_use_.erase(used);
  }
  return nullptr;
}

void PinnedHostMemory::free_now(std::byte* memory, Bytes bytes) {
  auto after = slabs_.upper_bound(memory);
  SPILLWAY_CHECK(after != slabs_.begin(), "memory of no slab is freed");
  auto& [base, slab] = *std::prev(after);
  const Bytes whole = round_up(bytes, kExtentGranule);
  slab.extents.free({static_cast<std::uint64_t>(memory - base), whole.count});
  used_ -= whole;
}

bool PinnedHostMemory::could_hold(Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  return budget_.limit().count != 0 && round_up(bytes, kExtentGranule) <= budget_.limit();
}

// In pieces there may be more room than that: all of it has to leave.
Bytes PinnedHostMemory::short_by(Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  const Bytes whole = round_up(bytes, kExtentGranule);
  if (budget_.available() >= whole) return {};
  for (const auto& [base, slab] : slabs_) {
    if (slab.extents.end_after(bytes) <= slab.bytes.count) return {};
  }
  return whole;
}

Bytes PinnedHostMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::string PinnedHostMemory::refusal() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

void PinnedHostMemory::settle() {
  const std::lock_guard lock(mutex_);
  settle_locked();
}

void PinnedHostMemory::settle_locked() {
  if (waiting_.empty()) return;
  std::vector<Fence> fences;
  std::ranges::transform(waiting_, std::back_inserter(fences), &Waiting::fence);
  const std::vector<bool> passed = clock_.passed(fences);
  auto at = waiting_.begin();
  for (const bool gone : passed) {
    if (!gone) {
      ++at;
      continue;
    }
    const Waiting waiting = *at;
    at = waiting_.erase(at);
    free_now(waiting.memory, waiting.bytes);
  }
}

}  // namespace spillway::runtime
