// SPDX-License-Identifier: Apache-2.0
// Moves one chunk: the calls, their faults, what to do when one falls short or fails. Shared by the
// implementations of Transfers, so that all of them fail and recover alike.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "spillway/runtime/transfer/transfer.hpp"

namespace spillway::runtime {

/// One run of bytes for one system call and its continuations.
struct Piece {
  Direction direction;
  int descriptor;
  bool direct;  ///< address, length and offset are then multiples of kExtentGranule
  std::byte* memory;
  std::uint64_t offset;
  std::uint64_t length;
};

/// The calls that a piece takes, one after the other:
///
///     while (!run.ended()) { call = run.next_call(); ...; run.after(moved); wait run.pause() }
class PieceRun {
 public:
  struct Call {
    std::uint64_t ask;                ///< bytes, from piece().memory and piece().offset
    int error;                        ///< acted out: do not call, it failed with this errno
    std::chrono::microseconds delay;  ///< acted out: the call takes this long first
  };

  explicit PieceRun(const Piece& piece) : rest_(piece) {}

  /// Asks the fault point spool.read or spool.write.
  Call next_call();
  /// `moved` is what the call returned: bytes or -errno.
  void after(std::int64_t moved);

  [[nodiscard]] bool ended() const { return rest_.length == 0 || error_ != 0; }
  [[nodiscard]] int error() const { return error_; }
  /// To wait before the next call; zero but for retries.
  [[nodiscard]] std::chrono::milliseconds pause() const { return pause_; }
  /// The piece that is left to move.
  [[nodiscard]] const Piece& piece() const { return rest_; }

 private:
  Piece rest_;
  int error_ = 0;
  int retries_ = 0;
  std::chrono::milliseconds pause_{0};
};

/// Throws InternalError if the transfer does not fit its extent.
void check_transfer(const Transfer& transfer);

[[nodiscard]] bool is_direct(int descriptor);

/// Address and length allow direct I/O without a staging buffer.
[[nodiscard]] bool is_aligned(const Transfer& transfer);

[[nodiscard]] Piece piece_of(const Transfer& transfer, bool direct, std::uint64_t begin,
                             std::uint64_t length);

/// Moves the bytes [begin, begin + length) of the transfer on the calling thread; an errno, 0 when
/// done.
int move_chunk(const Transfer& transfer, bool direct, std::uint64_t begin, std::uint64_t length);

}  // namespace spillway::runtime
