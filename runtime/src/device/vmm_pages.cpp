// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/vmm_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

VmmPages::VmmPages(StreamClock& clock, MemoryBudget& budget, Bytes addresses)
    : driver_(clock.driver()),
      clock_(clock),
      budget_(budget),
      granule_(driver_.facts().granule),
      addresses_(granule_ == 0 ? Bytes{} : round_up(addresses, granule_)) {
  if (granule_ == 0) {
    throw UserError(
        fmt::format("The device {} cannot map memory at addresses of the program's "
                    "choice (virtual memory management).",
                    driver_.facts().name));
  }
  const DeviceStatus status = driver_.reserve(addresses_, granule_, base_);
  if (!status.done()) {
    throw UserError(
        fmt::format("The device {} has no {} of addresses: {}. A limit on address space "
                    "(ulimit -v) may be too low.",
                    driver_.facts().name, to_string(addresses_), driver_.text(status)));
  }
}

VmmPages::~VmmPages() {
  // A lost device has taken everything with it: there is nothing to give back, and nobody to tell.
  static_cast<void>(driver_.synchronize());
  for (const Leaving& left : leaving_) mapped_[left.block] = left.pages;
  for (const auto& [block, pages] : mapped_) {
    static_cast<void>(driver_.unmap(block, pages.bytes));
    static_cast<void>(driver_.release(pages.handle));
    budget_.give_back(pages.bytes);
  }
  for (const auto& [bytes, handles] : ready_) {
    for (const PagesHandle handle : handles) {
      static_cast<void>(driver_.release(handle));
      budget_.give_back({bytes});
    }
  }
  static_cast<void>(driver_.free_reservation(base_, addresses_));
}

std::optional<DeviceAddress> VmmPages::carve(Bytes bytes) {
  const Bytes whole = pages_for(bytes);
  if (carved_ + whole > addresses_) return std::nullopt;
  const DeviceAddress block = base_ + carved_;
  carved_ += whole;
  return block;
}

std::optional<VmmPages::Pages> VmmPages::take_ready(Bytes bytes) {
  const auto found = ready_.find(bytes.count);
  if (found == ready_.end()) return std::nullopt;
  const Pages pages{found->second.back(), bytes};
  found->second.pop_back();
  if (found->second.empty()) ready_.erase(found);
  ready_bytes_ -= bytes;
  ++recycled_handles_;
  return pages;
}

void VmmPages::give_back(const Pages& pages) {
  expect_done(driver_, driver_.release(pages.handle), "giving memory back");
  budget_.give_back(pages.bytes);
}

Bytes VmmPages::trim(Bytes bytes) {
  Bytes returned{};
  while (returned < bytes && !ready_.empty()) {
    // The largest first: the fewest calls.
    const Bytes size{ready_.rbegin()->first};
    const auto pages = take_ready(size);
    --recycled_handles_;
    give_back(*pages);
    returned += size;
  }
  return returned;
}

std::optional<VmmPages::Pages> VmmPages::create(Bytes bytes, Overbooking overbooking) {
  auto promise = budget_.try_reserve(bytes, Overbooking::kRefuse);
  if (!promise) {
    trim(saturating_sub(bytes, budget_.available()));
    promise = budget_.try_reserve(bytes, overbooking);
    if (!promise) return std::nullopt;
  }
  Pages pages{{}, bytes};
  DeviceStatus status = driver_.create(bytes, pages.handle);
  // Others may hold the card's memory; what nobody needs of ours makes room.
  if (status.outcome == DeviceOutcome::kOutOfMemory && trim(bytes) != Bytes{}) {
    status = driver_.create(bytes, pages.handle);
  }
  if (status.outcome == DeviceOutcome::kOutOfMemory) return std::nullopt;
  expect_done(driver_, status, fmt::format("creating {} of memory", to_string(bytes)));
  promise->spend(bytes);
  ++created_handles_;
  return pages;
}

bool VmmPages::open(DeviceAddress block, Bytes bytes, Overbooking overbooking) {
  const Bytes whole = pages_for(bytes);
  SPILLWAY_CHECK(!mapped_.contains(block), "a block that has pages is opened");
  auto pages = take_ready(whole);
  if (!pages) pages = create(whole, overbooking);
  if (!pages) return false;
  const DeviceStatus mapped = driver_.map(block, whole, pages->handle);
  const DeviceStatus allowed = mapped.done() ? driver_.allow_access(block, whole) : DeviceStatus{};
  if (mapped.done() && allowed.done()) {
    mapped_[block] = *pages;
    mapped_bytes_ += whole;
    return true;
  }
  if (mapped.done()) expect_done(driver_, driver_.unmap(block, whole), "unmapping memory");
  give_back(*pages);
  // Tables of pages take the card's memory, too.
  const DeviceStatus failed = mapped.done() ? allowed : mapped;
  if (failed.outcome == DeviceOutcome::kOutOfMemory) return false;
  expect_done(driver_, failed, fmt::format("mapping {} of memory", to_string(whole)));
  return false;
}

void VmmPages::close(DeviceAddress block, const Fence& fence) {
  const auto found = mapped_.find(block);
  SPILLWAY_CHECK(found != mapped_.end(), "a block without pages is closed");
  mapped_bytes_ -= found->second.bytes;
  leaving_bytes_ += found->second.bytes;
  leaving_.push_back({block, found->second, fence});
  mapped_.erase(found);
}

std::optional<Fence> VmmPages::recall(DeviceAddress block) {
  const auto found = std::ranges::find(leaving_, block, &Leaving::block);
  if (found == leaving_.end()) return std::nullopt;
  leaving_bytes_ -= found->pages.bytes;
  mapped_bytes_ += found->pages.bytes;
  mapped_[block] = found->pages;
  const Fence fence = found->fence;
  leaving_.erase(found);
  return fence;
}

void VmmPages::take_from_block(const Leaving& leaving) {
  const Bytes bytes = leaving.pages.bytes;
  leaving_bytes_ -= bytes;  // first, as it is no longer among them: nobody may wait for it
  expect_done(driver_, driver_.unmap(leaving.block, bytes), "unmapping memory");
  ready_[bytes.count].push_back(leaving.pages.handle);
  ready_bytes_ += bytes;
}

Bytes VmmPages::settle() {
  if (leaving_.empty()) return {};
  std::vector<Fence> fences;
  std::ranges::transform(leaving_, std::back_inserter(fences), &Leaving::fence);
  const std::vector<bool> passed = clock_.passed(fences);
  const Bytes before = ready_bytes_;
  auto at = leaving_.begin();
  for (const bool gone : passed) {
    if (!gone) {
      ++at;
      continue;
    }
    const Leaving leaving = *at;
    at = leaving_.erase(at);  // first: unmapping may throw
    take_from_block(leaving);
  }
  return ready_bytes_ - before;
}

bool VmmPages::settle_one() {
  if (leaving_.empty()) return false;
  clock_.wait(leaving_.front().fence);
  const Leaving leaving = leaving_.front();
  leaving_.pop_front();
  take_from_block(leaving);
  return true;
}

}  // namespace spillway::runtime
