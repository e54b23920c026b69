// SPDX-License-Identifier: Apache-2.0
// How long ops take on a device, by its own events.
//
//     stream   --[event]-- what the op launches --[event]--
//                   \______________________________/
//                       once the second has passed
//
// Nobody waits for an op. Where a stream has run dry, the time contains that of launching, as the
// step does; an op that launches nothing takes what lies between two events in a row. Events are
// used again.
//
// Thread-safe. Errors: DeviceFailure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "spillway/base/ids.hpp"
#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::runtime {

/// An op's row in a recorded step.
struct TraceRow {
  std::uint64_t step = 0;
  std::size_t op = 0;
};

class OpTimer {
 public:
  /// Where an op began, on a stream that it ends on, too, wherever its thread goes meanwhile.
  struct Begun {
    DeviceEvent event{};
    DeviceStream stream{};
  };
  struct Time {
    TraceRow row;
    TimeNs duration = 0;
  };

  /// The driver outlives the timer.
  explicit OpTimer(DeviceDriver& driver) : driver_(driver) {}
  ~OpTimer();
  OpTimer(const OpTimer&) = delete;
  OpTimer& operator=(const OpTimer&) = delete;

  /// An op launches on `stream` from now on: to be given to `end` or `forget`.
  [[nodiscard]] Begun begin(DeviceStream stream);
  /// It has launched.
  void end(const Begun& begun, TraceRow row);
  /// Its time is not wanted.
  void forget(const Begun& begun);

  /// The times of ops that the device has done since the last call, in the order of their ends.
  [[nodiscard]] std::vector<Time> take_done();
  /// The times of all. Waits for the device.
  [[nodiscard]] std::vector<Time> take_all();

 private:
  struct Op {
    DeviceEvent began{};
    DeviceEvent ended{};
    TraceRow row;
  };
  DeviceEvent record_locked(DeviceStream stream);
  Time time_of_first_locked();

  DeviceDriver& driver_;
  std::mutex mutex_;
  std::deque<Op> pending_;
  std::vector<DeviceEvent> free_;
};

}  // namespace spillway::runtime
