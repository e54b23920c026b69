// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "spillway/runtime/device/page_job.hpp"

namespace spillway::runtime {

/// Pages put behind the addresses of one block: give others back, create (unless there is a
/// handle), map, allow_access. Where one fails the memory is given back to the driver. Whoever made
/// the opening has paid for its memory with the budget, and keeps that account: nothing here
/// touches it. Thread-safe.
class PageOpening final : public PageJob {
 public:
  /// `handle`: pages for the block; none: they are created. `given_back`: before that, to make room
  /// for them.
  PageOpening(DeviceDriver& driver, DeviceAddress block, Bytes bytes,
              std::optional<PagesHandle> handle, std::vector<PagesHandle> given_back = {})
      : PageJob(driver, block, bytes), handle_(handle), given_back_(std::move(given_back)) {}

  /// When it is over: the memory that it still has, which is mapped, given and not touched, or not
  /// to be released.
  [[nodiscard]] std::optional<PagesHandle> handle() const { return handle_; }

 private:
  bool make_calls() override;
  bool give_others_back();
  bool create_and_map();
  void let_go_of_memory();

  std::optional<PagesHandle> handle_;
  const std::vector<PagesHandle> given_back_;
  bool mapped_ = false;
};

}  // namespace spillway::runtime
