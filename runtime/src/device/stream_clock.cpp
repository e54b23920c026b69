// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace spillway::runtime {

StreamClock::StreamClock(DeviceDriver& driver, TickRate rate) : driver_(driver), rate_(rate) {}

StreamClock::~StreamClock() {
  for (Stream& stream : streams_) {
    for (const Tick& tick : stream.ticks) unused_.push_back(tick.event);
  }
  // A lost device takes its events with it.
  for (const DeviceEvent event : unused_) static_cast<void>(driver_.destroy_event(event));
}

std::deque<StreamClock::Stream>::iterator StreamClock::find_locked(DeviceStream stream) {
  return std::ranges::find_if(
      streams_, [&](const Stream& known) { return !known.gone && known.handle == stream; });
}

StreamSlot StreamClock::slot_of(DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  auto place = find_locked(stream);
  const bool known = place != streams_.end();
  if (!known) {
    place = std::ranges::find_if(
        streams_, [](const Stream& other) { return other.gone && other.ticks.empty(); });
  }
  const auto index = static_cast<std::size_t>(place - streams_.begin());
  const auto slot = static_cast<StreamSlot>(std::min<std::size_t>(index, kStreamSlots - 1));
  if (known) return slot;
  if (place != streams_.end()) {
    // Uses of the one before were noted up to now, those of this one are from here on.
    *place = Stream{.handle = stream, .ticks = {}, .passed = next_moment()};
  } else {
    streams_.emplace_back().handle = stream;
    slots_[slot].streams.push_back(index);
  }
  return slot;
}

void StreamClock::forget(DeviceStream stream) {
  const std::lock_guard lock(mutex_);
  const auto found = find_locked(stream);
  if (found == streams_.end()) return;
  for (Tick& tick : found->ticks) tick.passed = true;
  look_locked(*found);  // who waits for a tick still looks at it
  found->gone = true;
}

DeviceEvent StreamClock::take_event_locked() {
  if (!unused_.empty()) {
    const DeviceEvent event = unused_.back();
    unused_.pop_back();
    return event;
  }
  DeviceEvent event{};
  expect_done(driver_, driver_.create_event(EventTiming::kNo, event), "making an event");
  ++event_count_;
  return event;
}

// First the stamp, then the event: a use that saw an earlier moment was launched before both.
StreamClock::Tick& StreamClock::tick_locked(Stream& stream, StreamMoment stamp) {
  const DeviceEvent event = take_event_locked();
  const DeviceStatus status = driver_.record(event, stream.handle);
  if (!status.done()) unused_.push_back(event);
  expect_done(driver_, status, "recording an event");
  return stream.ticks.emplace_back(Tick{stamp, event});
}

void StreamClock::launched(StreamSlot slot, Bytes allocated) {
  Slot& of = slots_[slot];
  const std::uint32_t ops = of.ops.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t bytes =
      of.allocated.fetch_add(allocated.count, std::memory_order_relaxed) + allocated.count;
  if (ops >= rate_.ops || bytes >= rate_.allocated.count || captures_.load() != 0) tick(slot);
}

void StreamClock::tick_locked(Slot& slot) {
  slot.ops.store(0, std::memory_order_relaxed);
  slot.allocated.store(0, std::memory_order_relaxed);
  for (const std::size_t index : slot.streams) {
    if (streams_[index].gone || driver_.is_capturing(streams_[index].handle)) continue;
    look_locked(streams_[index]);
    tick_locked(streams_[index], next_moment());
  }
}

void StreamClock::tick(StreamSlot slot) {
  const std::lock_guard lock(mutex_);
  tick_locked(slots_[slot]);
}

// Counted first: an op that sees no capture yet has its tick here.
void StreamClock::begin_captures() {
  captures_.fetch_add(1);
  const std::lock_guard lock(mutex_);
  for (Slot& slot : slots_) tick_locked(slot);
}

StreamClock::Tick* StreamClock::last_locked(Stream& stream, StreamMoment now) {
  look_locked(stream);
  const auto last = std::ranges::find_if(stream.ticks.rbegin(), stream.ticks.rend(),
                                         [](const Tick& tick) { return !tick.passed; });
  if (last != stream.ticks.rend()) return &*last;
  stream.passed = now;
  return nullptr;
}

StreamClock::Tick* StreamClock::needed_locked(Stream& stream, StreamMoment moment) {
  if (stream.gone || stream.passed > moment) return nullptr;
  const auto first = std::ranges::upper_bound(stream.ticks, moment, {}, &Tick::stamp);
  if (first != stream.ticks.end()) return &*first;
  // The stamp comes first here, too.
  const StreamMoment now = next_moment();
  return driver_.is_capturing(stream.handle) ? last_locked(stream, now) : &tick_locked(stream, now);
}

void StreamClock::look_locked(Stream& stream) {
  for (Tick& tick : stream.ticks) {
    if (tick.passed) continue;
    const DeviceStatus status = driver_.query(tick.event);
    if (status.outcome == DeviceOutcome::kNotYet) break;
    expect_done(driver_, status, "looking at an event");
    tick.passed = true;
    stream.passed = tick.stamp;
  }
  while (!stream.ticks.empty() && stream.ticks.front().passed && stream.ticks.front().hosts == 0) {
    unused_.push_back(stream.ticks.front().event);
    stream.ticks.pop_front();
  }
}

template <typename Visit>
void StreamClock::for_streams_locked(const Fence& fence, const Visit& visit) {
  for (std::uint64_t left = fence.streams; left != 0; left &= left - 1) {
    for (const std::size_t index :
         slots_[static_cast<std::size_t>(__builtin_ctzll(left))].streams) {
      visit(streams_[index]);
    }
  }
}

void StreamClock::order_locked(DeviceStream waiter, const Fence& fence) {
  for_streams_locked(fence, [&](Stream& stream) {
    if (stream.handle == waiter) return;
    const Tick* const needed = needed_locked(stream, fence.moment);
    if (needed == nullptr) return;
    expect_done(driver_, driver_.stream_wait(waiter, needed->event), "letting streams wait");
  });
}

void StreamClock::order_after(DeviceStream waiter, const Fence& fence) {
  if (fence.empty()) return;
  if (driver_.is_capturing(waiter)) {
    wait(fence);
    return;
  }
  const std::lock_guard lock(mutex_);
  order_locked(waiter, fence);
}

void StreamClock::order_all_after(const Fence& fence) {
  bool captures = false;
  {
    const std::lock_guard lock(mutex_);
    for (const Stream& stream : streams_) {
      if (stream.gone) continue;
      if (driver_.is_capturing(stream.handle)) {
        captures = true;
      } else {
        order_locked(stream.handle, fence);
      }
    }
  }
  if (captures) wait(fence);
}

Fence StreamClock::fence_of_all() const {
  const std::lock_guard lock(mutex_);
  Fence all{0, moment()};
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].gone) continue;
    all.streams |= mask_of(static_cast<StreamSlot>(std::min<std::size_t>(i, kStreamSlots - 1)));
  }
  return all;
}

std::vector<bool> StreamClock::passed(std::span<const Fence> fences) {
  const std::lock_guard lock(mutex_);
  std::vector<Stream*> awaited;
  for (const Fence& fence : fences) {
    for_streams_locked(fence, [&](Stream& stream) {
      if (needed_locked(stream, fence.moment) == nullptr) return;
      if (std::ranges::find(awaited, &stream) == awaited.end()) awaited.push_back(&stream);
    });
  }
  for (Stream* const stream : awaited) look_locked(*stream);
  std::vector<bool> passed;
  passed.reserve(fences.size());
  for (const Fence& fence : fences) {
    bool all = true;
    for_streams_locked(fence, [&](const Stream& stream) {
      all = all && (stream.gone || stream.passed > fence.moment);
    });
    passed.push_back(all);
  }
  return passed;
}

void StreamClock::wait(const Fence& fence) {
  std::unique_lock lock(mutex_);
  std::vector<Stream*> awaited;  // others may add streams while the lock is free
  for_streams_locked(fence, [&](Stream& stream) { awaited.push_back(&stream); });
  for (Stream* const stream : awaited) {
    Tick* const needed = needed_locked(*stream, fence.moment);
    if (needed == nullptr) continue;
    ++needed->hosts;
    lock.unlock();
    const DeviceStatus status = driver_.synchronize_event(needed->event);
    lock.lock();
    --needed->hosts;
    expect_done(driver_, status, "waiting for an event");
    for (Tick& tick : stream->ticks) tick.passed = tick.passed || tick.stamp <= needed->stamp;
    stream->passed = std::max(stream->passed, needed->stamp);
    look_locked(*stream);
  }
}

std::string StreamClock::awaited() const {
  const std::lock_guard lock(mutex_);
  std::string told;
  for (const Stream& stream : streams_) {
    const auto first = std::ranges::find(stream.ticks, false, &Tick::passed);
    if (first == stream.ticks.end()) continue;
    unsigned hosts = 0;
    for (const Tick& tick : stream.ticks) hosts += tick.hosts;
    told += fmt::format("{}stream {:#x} is before tick {}{}", told.empty() ? "" : "; ",
                        static_cast<std::uintptr_t>(stream.handle), first->stamp,
                        hosts == 0 ? "" : fmt::format(", {} host thread(s) wait for it", hosts));
  }
  return told;
}

std::size_t StreamClock::event_count() const {
  const std::lock_guard lock(mutex_);
  return event_count_;
}

}  // namespace spillway::runtime
