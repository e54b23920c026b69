// SPDX-License-Identifier: Apache-2.0
#include "standstill.hpp"

namespace spillway::tf {

// Whoever changes a number while copies are under way looks at both afterwards. A change that sees
// no copy is followed by the look of the copy that begins.
void Standstill::begin_work() {
  if (working_.fetch_add(1) == 0 && copies_.load() != 0) look();
}

void Standstill::end_work() {
  if (working_.fetch_sub(1) == 1 && copies_.load() != 0) look();
}

std::shared_ptr<void> Standstill::copy_under_way() {
  copies_.fetch_add(1);
  look();
  return {this, [](Standstill* self) {
            self->copies_.fetch_sub(1);
            self->look();
          }};
}

void Standstill::look() {
  const std::lock_guard lock(mutex_);
  const bool stands = working_.load() == 0 && copies_.load() != 0;
  if (stands == stands_) return;
  stands_ = stands;
  const TimeNs now = now_();
  if (stands) {
    since_ = now;
  } else {
    total_ += now - since_;
  }
}

TimeNs Standstill::total() const {
  const std::lock_guard lock(mutex_);
  return stands_ ? total_ + now_() - since_ : total_;
}

}  // namespace spillway::tf
