// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/block_uses.hpp"

namespace spillway::runtime {

namespace {

/// It is several streams': what one of them waited for, another did not.
constexpr StreamSlot kShared = kStreamSlots - 1;

}  // namespace

void BlockUses::restart(const Fence& before, const NumberedStream& stream) {
  anywhere_.store(false);
  streams_.store(before.streams | mask_of(stream.slot));
  moment_.store(before.moment);
  arrival_ = before;  // for other streams that use it, too, without waiting for this one
  ordered_.store(stream.slot == kShared ? 0 : mask_of(stream.slot));
}

void BlockUses::arrives(const Fence& fence) {
  arrival_ = fence;
  ordered_.store(0);
  anywhere_.store(false);
  join(fence);
}

void BlockUses::begin(StreamClock& clock, const NumberedStream& stream) {
  streams_.fetch_or(mask_of(stream.slot));
  if ((ordered_.load() & mask_of(stream.slot)) != 0) return;
  clock.order_after(stream.handle, arrival_);
  if (stream.slot != kShared) ordered_.fetch_or(mask_of(stream.slot));
}

void BlockUses::begin_anywhere(StreamClock& clock) {
  anywhere_.store(true);
  clock.order_all_after(arrival_);
}

void BlockUses::join(const Fence& fence) noexcept {
  streams_.fetch_or(fence.streams);
  StreamMoment known = moment_.load();
  while (known < fence.moment && !moment_.compare_exchange_weak(known, fence.moment)) {
  }
}

Fence BlockUses::fence(StreamClock& clock) const {
  if (anywhere_.load()) return clock.fence_of_all();
  return {streams_.load(), moment_.load()};
}

}  // namespace spillway::runtime
