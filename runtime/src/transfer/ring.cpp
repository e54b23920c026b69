// SPDX-License-Identifier: Apache-2.0
#include "ring.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

// The kernel's work to end a request is done when this thread enters, not by interrupting it or
// others. Linux 6.1 has the first set, 5.19 the second, 5.1 the third.
constexpr unsigned kOneThread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
constexpr std::array<unsigned, 3> kFlagSets{kOneThread, IORING_SETUP_COOP_TASKRUN, 0};

int open_ring(unsigned entries, io_uring& ring) {
  int result = -EINVAL;
  for (const unsigned flags : kFlagSets) {
    io_uring_params parameters{};
    parameters.flags = flags | IORING_SETUP_CLAMP;
    result = io_uring_queue_init_params(entries, &ring, &parameters);
    if (result == 0 && (parameters.features & IORING_FEAT_EXT_ARG) == 0) {
      io_uring_queue_exit(&ring);
      return ENOSYS;  // before Linux 5.11 waiting with a limit takes an entry of its own
    }
    if (result != -EINVAL) break;
  }
  return -result;
}

/// Things that pass: a signal, the time that was given, memory that is short now, or completions
/// that are to be reaped first.
bool passes(int result) {
  return result >= 0 || result == -EINTR || result == -ETIME || result == -EAGAIN ||
         result == -EBUSY || result == -ENOMEM;
}

}  // namespace

Ring::Ring(unsigned entries) : error_(open_ring(entries, ring_)) {
  if (error_ != 0) return;
  // No child may share what the kernel writes: it belongs to the thread that made it.
  static_cast<void>(io_uring_ring_dontfork(&ring_));
}

Ring::~Ring() {
  if (error_ == 0) io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::entry() {
  io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
  SPILLWAY_CHECK(entry != nullptr, "more requests than the ring has entries");
  return entry;
}

void Ring::prepare(const Piece& piece, std::uint64_t ask, std::uint64_t tag) {
  io_uring_sqe* const request = entry();
  const auto bytes = static_cast<unsigned>(ask);
  if (piece.direction == Direction::kOut) {
    io_uring_prep_write(request, piece.descriptor, piece.memory, bytes, piece.offset);
  } else {
    io_uring_prep_read(request, piece.descriptor, piece.memory, bytes, piece.offset);
  }
  io_uring_sqe_set_data64(request, tag);
}

void Ring::prepare_wait_for(int event_fd, std::uint64_t* value, std::uint64_t tag) {
  io_uring_sqe* const request = entry();
  io_uring_prep_read(request, event_fd, value, sizeof *value, 0);
  io_uring_sqe_set_data64(request, tag);
}

void Ring::enter() {
  if (io_uring_sq_ready(&ring_) == 0) return;
  const int result = io_uring_submit(&ring_);
  SPILLWAY_CHECK(passes(result), fmt::format("io_uring_enter: {}", std::strerror(-result)));
}

void Ring::enter_and_wait(std::chrono::nanoseconds patience) {
  int result = 0;
  if (patience.count() < 0) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    __kernel_timespec limit{patience.count() / 1'000'000'000, patience.count() % 1'000'000'000};
    io_uring_cqe* ended = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &ended, 1, &limit, nullptr);
  }
  SPILLWAY_CHECK(passes(result), fmt::format("io_uring_enter: {}", std::strerror(-result)));
}

}  // namespace spillway::runtime
