// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::runtime {

/// Calls of a driver for the pages of one block, made by whichever thread comes first. Thread-safe.
class PageJob {
 public:
  PageJob() = default;
  virtual ~PageJob() = default;
  PageJob(const PageJob&) = delete;
  PageJob& operator=(const PageJob&) = delete;

  /// Makes the calls on this thread if nobody has, and waits while another thread is at it. False:
  /// they failed, or shall not be made.
  virtual bool finish() = 0;
  /// They shall not be made by the thread that was to make them, since it cannot.
  virtual void fail(DeviceStatus why) = 0;
};

}  // namespace spillway::runtime
