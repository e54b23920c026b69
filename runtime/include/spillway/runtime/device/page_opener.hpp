// SPDX-License-Identifier: Apache-2.0
// A thread that opens blocks ahead of need, for fetches and for allocations, and closes those that
// nobody uses, beside the program's.
//
//     add ──> [ c | d | e ] ──> the thread: finish(b)         first added, first done
//
// To open a block and to close it takes a driver 180 us in a training process, and more while
// copies leave the card (an H100, driver 580): the tables of pages are written by an engine that
// copies, too. That holds up who maps, and nobody who launches on another thread.
//
// What is done or taken back in the queue is passed over. The thread starts with the first job.
// Thread-safe, except `stop`, beside which nothing is added.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

/// Who opens what is fetched ahead of need.
enum class OpensAhead : std::uint8_t {
  kAtOnce,    ///< who fetches it, as everything else
  kOnThread,  ///< a thread
  kOnCall     ///< whoever calls `open_next`
};

class PageOpener {
 public:
  /// The driver outlives this.
  PageOpener(DeviceDriver& driver, OpensAhead who) : driver_(driver), who_(who) {}
  /// Waits for what the thread is at; those behind it are left as they are.
  ~PageOpener() { discard(); }
  PageOpener(const PageOpener&) = delete;
  PageOpener& operator=(const PageOpener&) = delete;

  [[nodiscard]] bool has_thread() const { return who_ == OpensAhead::kOnThread; }
  /// False: nobody does it but the caller, now.
  bool add(const std::shared_ptr<PageJob>& job);
  /// OpensAhead::kOnCall: does the first of the queue. False if there is none.
  bool open_next();
  /// Ends the thread when all that was added is done; the next job starts another.
  void stop();
  /// Ends the thread; what is queued is left as it is.
  void discard();

 private:
  void work();
  std::shared_ptr<PageJob> take_next_locked();

  DeviceDriver& driver_;
  const OpensAhead who_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<PageJob>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace spillway::runtime
