// SPDX-License-Identifier: Apache-2.0
#include "host_time.hpp"

#include <chrono>
#include <thread>

#include "spillway/runtime/steady_time.hpp"

namespace spillway::replay {

namespace {

// Linux wakes a thread some 50 us after its time; below a few times that sleeping is not worth it.
constexpr TimeNs kWorthSleeping = 150'000;

}  // namespace

void HostTime::spend(TimeNs time) {
  thread_local TimeNs owed = 0;
  owed += time;
  if (owed < kWorthSleeping) return;
  const TimeNs begin = runtime::now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(owed));
  owed -= runtime::now_ns() - begin;
}

}  // namespace spillway::replay
