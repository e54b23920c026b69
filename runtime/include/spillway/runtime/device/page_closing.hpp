// SPDX-License-Identifier: Apache-2.0
// Pages taken from behind the addresses of a block that nobody uses any more, by whichever thread
// comes first.
//
//     queued --finish--> closed, or failed     unmap
//        `--take_back, fail--> not begun       the block is mapped as it was
//
// Errors: told by `status`. Thread-safe.
#pragma once

#include <atomic>
#include <mutex>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

class PageClosing final : public PageJob {
 public:
  /// The driver outlives this.
  PageClosing(DeviceDriver& driver, DeviceAddress block, Bytes bytes)
      : driver_(driver), block_(block), bytes_(bytes) {}

  bool finish() override;
  void fail(DeviceStatus why) override;
  /// It shall not be done: true. False: it was begun, and is over now.
  bool take_back();

  /// Whether it has ended, in one way or the other. Waits for nobody.
  [[nodiscard]] bool over() const { return stage_.load() != Stage::kQueued; }
  // When it is over.
  [[nodiscard]] bool begun() const { return stage_.load() != Stage::kNotBegun; }
  [[nodiscard]] DeviceStatus status() const { return status_; }

 private:
  enum class Stage : std::uint8_t { kQueued, kEnded, kNotBegun };

  DeviceDriver& driver_;
  const DeviceAddress block_;
  const Bytes bytes_;
  std::mutex mutex_;  // guards what is below until it is over
  DeviceStatus status_;
  std::atomic<Stage> stage_{Stage::kQueued};
};

}  // namespace spillway::runtime
