// SPDX-License-Identifier: Apache-2.0
// Holds back the ends of copies for random times, so that they come late and in another order than
// that in which the copies ended. For fuzz: a graph whose values depend on which copy ends first,
// or on how soon, then gives others.
//
//     copy ends ─> hold(end) ─> [ end at 0.3 ms | end at 1.1 ms | ... ] ─> end(), one at a time
//
// Times are drawn evenly between none and the longest; a seed gives the same sequence.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

namespace spillway::tf {

class DelayedEnds {
 public:
  using End = std::function<void()>;

  DelayedEnds(std::uint64_t seed, std::chrono::microseconds longest);
  /// Calls what is still held.
  ~DelayedEnds();

  /// `end` is called later, by a thread of this one's and with no lock held. It may hold more.
  void hold(End end);
  /// Returns when nothing is held and every `end` has returned; holds nothing back meanwhile.
  void drain();

  /// After drain(), while nobody holds anything.
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  /// Releases the lock meanwhile.
  void call_first(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;
  std::uniform_int_distribution<std::int64_t> microseconds_;
  std::multimap<Clock::time_point, End> held_;  // by when it is called
  bool calling_ = false;
  int hurrying_ = 0;  // drains that wait
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace spillway::tf
