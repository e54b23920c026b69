// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/page_job.hpp"

#include <fmt/format.h>

namespace spillway::runtime {

bool PageJob::step(DeviceStatus status, const char* doing) {
  if (status.done()) return true;
  status_ = status;
  doing_ = fmt::format("{} {} of memory", doing, to_string(bytes_));
  return false;
}

bool PageJob::finish() {
  const std::lock_guard lock(mutex_);
  if (!over()) stage_.store(make_calls() ? Stage::kDone : Stage::kFailed);
  return done();
}

void PageJob::fail(DeviceStatus why) {
  const std::lock_guard lock(mutex_);
  if (over()) return;
  step(why, "entering a thread for");
  stage_.store(Stage::kNotBegun);
}

bool PageJob::take_back() {
  const std::lock_guard lock(mutex_);
  if (!over()) stage_.store(Stage::kNotBegun);
  return !begun();
}

}  // namespace spillway::runtime
