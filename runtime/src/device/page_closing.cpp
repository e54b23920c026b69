// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/page_closing.hpp"

namespace spillway::runtime {

bool PageClosing::finish() {
  const std::lock_guard lock(mutex_);
  if (!over()) {
    status_ = driver_.unmap(block_, bytes_);
    stage_.store(Stage::kEnded);
  }
  return begun() && status_.done();
}

void PageClosing::fail(DeviceStatus /*why*/) { static_cast<void>(take_back()); }

bool PageClosing::take_back() {
  const std::lock_guard lock(mutex_);
  if (!over()) stage_.store(Stage::kNotBegun);
  return !begun();
}

}  // namespace spillway::runtime
