// SPDX-License-Identifier: Apache-2.0
// Calls of a driver for the pages of one block, made by whichever thread comes first.
//
//     queued --finish--> done, or failed
//        `--take_back, fail--> not begun       no call was made
//
// The calls are made under a lock of the job's own and no other, so that a thread which needs the
// block in the midst of them waits for those calls alone.
//
// Errors: told by `status`, and by `doing` in words. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::runtime {

class PageJob {
 public:
  virtual ~PageJob() = default;
  PageJob(const PageJob&) = delete;
  PageJob& operator=(const PageJob&) = delete;

  /// Makes the calls on this thread if nobody has, and waits while another thread is at it. False:
  /// they failed, or shall not be made.
  bool finish();
  /// They shall not be made by the thread that was to make them, since it cannot.
  void fail(DeviceStatus why);
  /// They shall not be made, since nobody needs it: true. False: they were begun, and are over now.
  bool take_back();

  /// Whether it has ended, in one way or the other. Waits for nobody.
  [[nodiscard]] bool over() const { return stage_.load() != Stage::kQueued; }
  [[nodiscard]] bool done() const { return stage_.load() == Stage::kDone; }

  // When it is over.
  [[nodiscard]] bool begun() const { return stage_.load() != Stage::kNotBegun; }
  [[nodiscard]] DeviceStatus status() const { return status_; }
  /// What was being done at the failure, as `expect_done` wants it.
  [[nodiscard]] const std::string& doing() const { return doing_; }

 protected:
  /// The driver outlives this.
  PageJob(DeviceDriver& driver, DeviceAddress block, Bytes bytes)
      : driver_(driver), block_(block), bytes_(bytes) {}

  /// Under the lock. False: one of them failed, as `step` noted.
  virtual bool make_calls() = 0;
  bool step(DeviceStatus status, const char* doing);

  DeviceDriver& driver_;
  const DeviceAddress block_;
  const Bytes bytes_;

 private:
  enum class Stage : std::uint8_t { kQueued, kDone, kFailed, kNotBegun };

  std::mutex mutex_;  // guards what is below, and what a job has of its own, until it is over
  DeviceStatus status_;
  std::string doing_;
  std::atomic<Stage> stage_{Stage::kQueued};
};

}  // namespace spillway::runtime
