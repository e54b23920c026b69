// SPDX-License-Identifier: Apache-2.0
// Pages put behind the addresses of one block, by whichever thread comes first.
//
//     queued --finish--> open             create (unless there is a handle), map, allow_access
//        |         `---> failed           the memory is given back to the driver
//        `--take_back, fail--> not begun  no call was made
//
// The calls are made under a lock of the opening's own and no other, so that a thread which needs
// the block in the midst of them waits for those calls alone. Whoever made the opening has paid for
// its memory with the budget, and keeps that account: nothing here touches it.
//
// Errors: told by `status`, and by `over` in words. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

class PageOpening final : public PageJob {
 public:
  /// `handle`: pages for the block, none: they are created. The driver outlives this.
  PageOpening(DeviceDriver& driver, DeviceAddress block, Bytes bytes,
              std::optional<PagesHandle> handle)
      : driver_(driver), block_(block), bytes_(bytes), handle_(handle) {}

  /// Opens the block on this thread if nobody has, and waits while another thread is at it. False:
  /// it has no pages.
  bool finish() override;
  /// It shall not be done, since the thread that was to do it cannot make calls.
  void fail(DeviceStatus why) override;
  /// It shall not be done, since nobody needs it: true. False: it was begun, and is over now.
  bool take_back();

  /// Whether it has ended, in one way or the other. Waits for nobody.
  [[nodiscard]] bool over() const { return stage_.load() != Stage::kQueued; }
  [[nodiscard]] bool open() const { return stage_.load() == Stage::kOpen; }

  // When it is over.
  [[nodiscard]] bool begun() const { return stage_.load() != Stage::kNotBegun; }
  [[nodiscard]] DeviceStatus status() const { return status_; }
  /// What was being done at the failure, as `expect_done` wants it.
  [[nodiscard]] const std::string& doing() const { return doing_; }
  /// The memory that it still has: mapped, given and not touched, or not to be released.
  [[nodiscard]] std::optional<PagesHandle> handle() const { return handle_; }

 private:
  enum class Stage : std::uint8_t { kQueued, kOpen, kFailed, kNotBegun };

  bool step(DeviceStatus status, const char* doing);
  bool create_and_map();
  void let_go_of_memory();

  DeviceDriver& driver_;
  const DeviceAddress block_;
  const Bytes bytes_;
  std::mutex mutex_;  // guards what is below until it is over
  std::optional<PagesHandle> handle_;
  bool mapped_ = false;
  DeviceStatus status_;
  std::string doing_;
  std::atomic<Stage> stage_{Stage::kQueued};
};

}  // namespace spillway::runtime
