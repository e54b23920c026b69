// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/processor_clock.hpp"

#include <time.h>

namespace spillway {
namespace {

TimeNs time_of(clockid_t clock) {
  constexpr TimeNs kNsPerSecond = 1'000'000'000;
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

}  // namespace

TimeNs processor_time() { return time_of(CLOCK_PROCESS_CPUTIME_ID); }
TimeNs thread_processor_time() { return time_of(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace spillway
