// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/page_opening.hpp"

namespace spillway::runtime {

bool PageOpening::give_others_back() {
  for (const PagesHandle other : given_back_) {
    if (!step(driver_.release(other), "giving others back for")) return false;
  }
  return true;
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

bool PageOpening::make_calls() {
  const bool done = give_others_back() && create_and_map();
  if (!done) let_go_of_memory();
  return done;
}

}  // namespace spillway::runtime
