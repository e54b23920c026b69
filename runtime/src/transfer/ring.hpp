// SPDX-License-Identifier: Apache-2.0
// One io_uring as TransferRing uses it. To be made, used and destroyed by one thread.
#pragma once

#include <liburing.h>

#include <chrono>
#include <cstdint>

#include "chunk_io.hpp"

namespace spillway::runtime {

class Ring {
 public:
  /// `error()` is an errno where there is none to be had.
  explicit Ring(unsigned entries);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] int error() const { return error_; }

  /// The next enter() starts it; it ends with `tag`. There must be an entry left.
  void prepare(const Piece& piece, std::uint64_t ask, std::uint64_t tag);
  void prepare_wait_for(int event_fd, std::uint64_t* value, std::uint64_t tag);

  /// Starts what was prepared. Does not wait.
  void enter();
  /// The same, and waits until something ended or `patience` is over; negative: for ever.
  void enter_and_wait(std::chrono::nanoseconds patience);

  /// Calls `ended(tag, result)` for what ended. `ended` may prepare.
  template <typename Ended>
  void reap(Ended&& ended) {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const std::uint64_t tag = io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      ended(tag, result);
    }
  }

 private:
  io_uring_sqe* entry();

  io_uring ring_{};
  int error_;
};

}  // namespace spillway::runtime
