// SPDX-License-Identifier: Apache-2.0
// A thread that looks how far a device has come, so that what has ended is noticed although the
// program does something else.
//
//   wake ──> look, look, look ...  as long as `look` says that something is under way; then it
//   sleeps
//
// A device tells nothing of itself: it is asked. Between two looks the thread sleeps kPause, which
// is short beside the copies it looks for (1 ms for 55 MB) and costs a hundredth of a processor.
//
// A failure of the device is told once, and the thread ends: there is nothing to look at any more.
// Thread-safe. `look` and `failed` are called on the thread, without locks of the watcher's. Not
// for a forked child.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::runtime {

class DeviceWatcher {
 public:
  static constexpr std::chrono::microseconds kPause{50};

  /// `look` takes its owner's lock, does what has become due, and says whether more is under way.
  /// The driver outlives this.
  DeviceWatcher(DeviceDriver& driver, std::function<bool()> look,
                std::function<void(const std::string&)> failed);
  /// Waits for a look that is being taken.
  ~DeviceWatcher();
  DeviceWatcher(const DeviceWatcher&) = delete;
  DeviceWatcher& operator=(const DeviceWatcher&) = delete;

  /// Something is under way.
  void wake();

 private:
  void watch();
  void look_while_needed();

  DeviceDriver& driver_;
  const std::function<bool()> look_;
  const std::function<void(const std::string&)> failed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace spillway::runtime
