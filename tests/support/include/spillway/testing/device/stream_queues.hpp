// SPDX-License-Identifier: Apache-2.0
// The streams of a stand-in card: queues of tasks, done in order within a stream and in any order
// between streams, as far as their waits allow.
//
//   Pace::kThreads   a thread per stream that is used, which sleeps for a random time before some
//                    tasks
//   Pace::kByCalls   no thread: each call of the host lets some streams do some tasks, by the seed.
//                    For a while a stream may do nothing of itself; when the host waits for a mark,
//                    often only what it needs is done, and likewise when it asks for one for the
//                    third time and more, since a host that asks again and again sleeps in between.
//                    Repeatable, and it finds more than threads do
//
// Thread-safe by a lock that its owner takes: every function but the constructor and destructor
// needs it. Tasks run without it, unless the pace is kByCalls.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::testing {

enum class Pace : std::uint8_t { kThreads, kByCalls };

/// Device memory that a task reads or writes.
struct DeviceAccess {
  runtime::DeviceAddress address{};
  Bytes bytes{};
};

/// A place in a stream that is passed once.
struct StreamMark {
  std::uint64_t stream = 0;
  bool passed = false;
  TimeNs at = 0;
  unsigned asked = 0;  ///< how often the host did, in vain
};

struct StreamTask {
  std::vector<DeviceAccess> accesses;
  std::function<void()> work;          ///< may be empty
  std::shared_ptr<StreamMark> awaits;  ///< may be null
  std::shared_ptr<StreamMark> marks;   ///< may be null
};

class StreamQueues {
 public:
  /// `admit` is asked before each task, with the lock held; without its leave no work is done.
  StreamQueues(Pace pace, std::uint64_t seed, unsigned longest_delay_us,
               std::function<bool(const StreamTask&)> admit);
  /// Does what is left.
  ~StreamQueues();
  StreamQueues(const StreamQueues&) = delete;
  StreamQueues& operator=(const StreamQueues&) = delete;

  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] Lock lock() { return Lock(mutex_); }

  std::uint64_t open();
  [[nodiscard]] bool is_open(std::uint64_t stream) const;
  /// Whether all that it was given is done.
  [[nodiscard]] bool idle(std::uint64_t stream) const;
  /// What it holds is still done.
  void close(std::uint64_t stream);
  void enqueue(std::uint64_t stream, StreamTask task);
  /// Lets work go on for a while, where no threads do.
  void pass_time();
  /// Whether it has passed.
  bool ask(StreamMark& mark);
  void await(Lock& lock, const std::shared_ptr<StreamMark>& mark);
  void await_all(Lock& lock);
  /// Whether a task that is not done yet uses any of it.
  [[nodiscard]] bool uses(const DeviceAccess& range) const;

 private:
  struct Stream {
    std::uint64_t id = 0;
    std::deque<StreamTask> tasks;
    bool open = true;
    bool awake = true;  // Pace::kByCalls: does something of itself
    std::mt19937_64 random;
    std::thread thread;
  };

  void serve(Stream& stream);
  void perform(Stream& stream, Lock* lock);
  void delay(Stream& stream, Lock& lock);
  [[nodiscard]] static bool ready(const Stream& stream);
  bool perform_any(bool asleep_too);
  void perform_for(const StreamMark& mark);

  const Pace pace_;
  const std::uint64_t seed_;
  const unsigned longest_delay_us_;
  const std::function<bool(const StreamTask&)> admit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Stream> streams_;
  std::mt19937_64 random_;
  std::uint64_t last_id_ = 0;
  bool stopping_ = false;
};

}  // namespace spillway::testing
