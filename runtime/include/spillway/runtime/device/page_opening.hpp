// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

/// Pages put behind the addresses of one block: create (unless there is a handle), map,
/// allow_access. Where one fails the memory is given back to the driver. Whoever made the opening
/// has paid for its memory with the budget, and keeps that account: nothing here touches it.
/// Thread-safe.
class PageOpening final : public PageJob {
 public:
  /// `handle`: pages for the block; none: they are created.
  PageOpening(DeviceDriver& driver, DeviceAddress block, Bytes bytes,
              std::optional<PagesHandle> handle)
      : PageJob(driver, block, bytes), handle_(handle) {}

  /// When it is over: the memory that it still has, which is mapped, given and not touched, or not
  /// to be released.
  [[nodiscard]] std::optional<PagesHandle> handle() const { return handle_; }

 private:
  bool make_calls() override;
  bool create_and_map();
  void let_go_of_memory();

  std::optional<PagesHandle> handle_;
  bool mapped_ = false;
};

}  // namespace spillway::runtime
