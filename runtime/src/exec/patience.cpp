// SPDX-License-Identifier: Apache-2.0
#include "patience.hpp"

namespace spillway::runtime {

namespace {

// A thread that waits for a lock or sleeps in short naps wakes now and then: a few parts in a
// thousand. One that works uses more than this part of the time, also where fifty threads share a
// processor.
constexpr TimeNs kWorkingShare = 50;
// Over less time than this the share says little.
constexpr TimeNs kShortestStretch = 100'000'000;

}  // namespace

bool Patience::lasts(const Sight& sight) {
  if (!looked_) {
    looked_ = true;
    began_ = idle_since_ = sight.now;
    progress_ = sight.progress;
  }
  now_ = sight.now;
  worked_ += sight.worked;
  const TimeNs stretch = now_ - idle_since_;
  const bool works = stretch >= kShortestStretch && worked_ * kWorkingShare >= stretch;
  if (works || sight.unknown || sight.progress != progress_) {
    idle_since_ = now_;
    progress_ = sight.progress;
    worked_ = 0;
  }
  return now_ - idle_since_ < limits_.idle && waited() < limits_.total;
}

}  // namespace spillway::runtime
