// SPDX-License-Identifier: Apache-2.0
// Knows how far a device's streams have come, from few events.
//
//   host      op  op  op |tick 7| op  op |tick 8| op          moment() is 8 here
//   stream    ===op===op==7==op=====op=====8====op==>         passed(slot) is 7 until 8 is reached
//
// A tick is an event in a stream, stamped with the next moment. Ticks are made every 16 ops or
// 64 MiB of allocations, and where a fence needs one. A use of memory costs no event: whoever
// launched it notes its stream and moment() *after the launch*. All ticks of that stream with a
// later stamp were enqueued behind the use, so it is over when one of them has passed:
//
//   Fence{streams, moment} has passed  <=>  for each stream a tick stamped > moment has passed
//
// The moment is a count of its own and not the op clock of a lane: with two threads in one lane a
// tick may be recorded between an op's number and its launch, and clocks of lanes cannot be
// compared. Taken after the launch, the order holds for any number of threads.
//
// A stream whose work is captured for a graph does nothing at a time of its own: no tick is
// recorded there, and once the last one has passed, all has that the stream was given before, as
// each op had its tick while captures were possible. Nothing may be awaited there either: the host
// waits in its place.
//
// Waiting on an event that was never recorded is a no-op for a driver; so a tick is always recorded
// before anyone waits for it. Events are pooled, without timing. A framework's streams are known by
// their handles; from the 64th on they share the last slot, so what is awaited of one is awaited of
// all of them.
//
// Errors: DeviceFailure, with what was done when the device failed.
// Thread-safe, by a mutex that is the last to be taken; `wait` holds it not while it waits.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/fence.hpp"

namespace spillway::runtime {

/// How often a busy stream gets a tick: often enough that memory is known to be free soon after it
/// is, seldom enough that an event (about 1 us) vanishes beside 16 launches.
struct TickRate {
  std::uint32_t ops = 16;
  Bytes allocated = kMiB * 64;
};

class StreamClock {
 public:
  explicit StreamClock(DeviceDriver& driver, TickRate rate = {});
  /// No event may still be awaited.
  ~StreamClock();
  StreamClock(const StreamClock&) = delete;
  StreamClock& operator=(const StreamClock&) = delete;

  /// The slot of a stream, given at its first sight until `forget`.
  StreamSlot slot_of(DeviceStream stream);
  /// The stream has done all that it was given, and will be destroyed. Nobody awaits it any more,
  /// and another may have its slot.
  void forget(DeviceStream stream);

  /// Now. A use that was launched before is behind every later tick of its stream.
  [[nodiscard]] StreamMoment moment() const { return moment_.load(); }
  /// All that was enqueued on the stream so far.
  [[nodiscard]] Fence fence(StreamSlot slot) const { return {mask_of(slot), moment()}; }

  /// All that was enqueued on any stream that is known.
  [[nodiscard]] Fence fence_of_all() const;

  /// An op was launched on the stream, having allocated that much: a tick, if it is time for one.
  void launched(StreamSlot slot, Bytes allocated = {});
  /// A tick now.
  void tick(StreamSlot slot);
  /// Graphs may be captured until as many `end_captures`: every stream that is known gets a tick,
  /// and from then on one with each op, since it may join a capture at any time.
  void begin_captures();
  void end_captures() { captures_.fetch_sub(1); }

  /// Later work of `waiter` starts when the fence has passed. The host does not wait, unless
  /// `waiter` is captured. Work of `waiter` itself needs no wait.
  void order_after(DeviceStream waiter, const Fence& fence);
  /// Later work of every stream that is known starts when the fence has passed, as above.
  void order_all_after(const Fence& fence);
  /// Whether the fence has passed, as far as the device has told. Records ticks where the fence
  /// needs some, so asking again leads somewhere.
  [[nodiscard]] bool passed(const Fence& fence) { return passed(std::span(&fence, 1)).front(); }
  /// As above, of each. The device is asked once for each stream, however many fences there are.
  [[nodiscard]] std::vector<bool> passed(std::span<const Fence> fences);
  /// The host waits for it.
  void wait(const Fence& fence);
  /// The streams that are before a tick of theirs, as far as the device has told, and who waits for
  /// them; for people who wonder why nothing goes on. Empty if there are none.
  [[nodiscard]] std::string awaited() const;

  [[nodiscard]] DeviceDriver& driver() const { return driver_; }
  /// Events ever made: bounded by those in flight at once.
  [[nodiscard]] std::size_t event_count() const;

 private:
  struct Tick {
    StreamMoment stamp;
    DeviceEvent event;
    unsigned hosts = 0;  // threads waiting for it, so that the event is not used anew meanwhile
    bool passed = false;
  };
  struct Stream {
    DeviceStream handle{};
    std::deque<Tick> ticks;  // oldest first
    StreamMoment passed = 0;
    bool gone = false;  // what it did has passed; its place is free
  };
  struct Slot {
    std::vector<std::size_t> streams;  // indices; one, but in the last slot
    std::atomic<std::uint32_t> ops{0};
    std::atomic<std::uint64_t> allocated{0};
  };

  std::deque<Stream>::iterator find_locked(DeviceStream stream);
  DeviceEvent take_event_locked();
  void tick_locked(Slot& slot);
  StreamMoment next_moment() { return moment_.fetch_add(1) + 1; }
  Tick& tick_locked(Stream& stream, StreamMoment stamp);
  /// The last tick of a stream that was captured at `now`; null if it has passed.
  Tick* last_locked(Stream& stream, StreamMoment now);
  /// The first tick that the fence needs of this stream, null if it has passed.
  Tick* needed_locked(Stream& stream, StreamMoment moment);
  void look_locked(Stream& stream);
  void order_locked(DeviceStream waiter, const Fence& fence);
  template <typename Visit>
  void for_streams_locked(const Fence& fence, const Visit& visit);

  DeviceDriver& driver_;
  const TickRate rate_;
  std::atomic<StreamMoment> moment_{1};
  std::atomic<int> captures_{0};  // that are possible
  mutable std::mutex mutex_;
  std::deque<Stream> streams_;  // addresses stay
  std::array<Slot, kStreamSlots> slots_;
  std::vector<DeviceEvent> unused_;
  std::size_t event_count_ = 0;
};

}  // namespace spillway::runtime
