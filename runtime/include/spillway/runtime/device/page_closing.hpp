// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

/// Pages taken from behind the addresses of a block that nobody uses any more (unmap). One that is
/// not begun leaves the block mapped as it was. Thread-safe.
class PageClosing final : public PageJob {
 public:
  PageClosing(DeviceDriver& driver, DeviceAddress block, Bytes bytes)
      : PageJob(driver, block, bytes) {}

 private:
  bool make_calls() override { return step(driver_.unmap(block_, bytes_), "unmapping"); }
};

}  // namespace spillway::runtime
