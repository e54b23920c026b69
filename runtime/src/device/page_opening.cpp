// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/page_opening.hpp"

#include <fmt/format.h>

namespace spillway::runtime {

bool PageOpening::step(DeviceStatus status, const char* doing) {
  if (status.done()) return true;
  status_ = status;
  doing_ = fmt::format("{} {} of memory", doing, to_string(bytes_));
  return false;
}

bool PageOpening::create_and_map() {
  if (!handle_) {
    PagesHandle made{};
    if (!step(driver_.create(bytes_, made), "creating")) return false;
    handle_ = made;
  }
  mapped_ = step(driver_.map(block_, bytes_, *handle_), "mapping");
  return mapped_ && step(driver_.allow_access(block_, bytes_), "mapping");
}

// What cannot be given back the card still holds.
void PageOpening::let_go_of_memory() {
  if (!handle_) return;
  if (mapped_ && !step(driver_.unmap(block_, bytes_), "unmapping")) return;
  if (step(driver_.release(*handle_), "giving back")) handle_.reset();
}

bool PageOpening::finish() {
  const std::lock_guard lock(mutex_);
  if (!over()) {
    const bool done = create_and_map();
    if (!done) let_go_of_memory();
    stage_.store(done ? Stage::kOpen : Stage::kFailed);
  }
  return open();
}

void PageOpening::fail(DeviceStatus why) {
  const std::lock_guard lock(mutex_);
  if (over()) return;
  step(why, "entering a thread for");
  stage_.store(Stage::kNotBegun);
}

bool PageOpening::take_back() {
  const std::lock_guard lock(mutex_);
  if (!over()) stage_.store(Stage::kNotBegun);
  return !begun();
}

}  // namespace spillway::runtime
