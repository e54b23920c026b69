// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/block_uses.hpp"

namespace spillway::runtime {

namespace {

/// It is several streams': what one of them waited for, another did not.
constexpr StreamSlot kShared = kStreamSlots - 1;

}  // namespace

// The moment is taken behind the wait, so that who awaits the stream awaits what it waits for.
void BlockUses::restart(StreamClock& clock, const Fence& before, const NumberedStream& stream) {
  anywhere_.store(false);
  arrival_ = before;  // for other streams that use it, too, without waiting for this one
  ordered_.store(stream.slot == kShared ? 0 : mask_of(stream.slot));
  clock.order_after(stream.handle, before);
  moment_.store(clock.moment());
  users_.store(mask_of(stream.slot));
}

void BlockUses::arrives(const Fence& fence) {
  if (fence.empty()) return;  // nothing came: its uses so far are to be awaited still
  arrival_ = fence;
  ordered_.store(0);
  anywhere_.store(false);
  users_.store(0);
  moment_.store(fence.moment);
}

void BlockUses::begin(StreamClock& clock, const NumberedStream& stream) {
  if ((ordered_.load() & mask_of(stream.slot)) == 0) {
    clock.order_after(stream.handle, arrival_);
    if (stream.slot != kShared) ordered_.fetch_or(mask_of(stream.slot));
    join({0, clock.moment()});  // as above
  }
  users_.fetch_or(mask_of(stream.slot));
}

void BlockUses::begin_anywhere(StreamClock& clock) {
  anywhere_.store(true);
  clock.order_all_after(arrival_);
}

void BlockUses::join(const Fence& fence) noexcept {
  users_.fetch_or(fence.streams);
  StreamMoment known = moment_.load();
  while (known < fence.moment && !moment_.compare_exchange_weak(known, fence.moment)) {
  }
}

// An op may note its use of what the block was before, since it cannot know that it died meanwhile:
// its stream has not waited for the arrival, which has to be awaited still.
Fence BlockUses::fence(StreamClock& clock) const {
  if (anywhere_.load()) return clock.fence_of_all();
  const std::uint64_t users = users_.load();
  const bool covered = (users & ordered_.load()) != 0;
  return {covered ? users : users | arrival_.streams, moment_.load()};
}

}  // namespace spillway::runtime
