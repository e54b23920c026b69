// SPDX-License-Identifier: Apache-2.0
#include "chunk_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {
namespace {

// Odd addresses are copied through a buffer of this size: it stays in the second-level cache.
constexpr std::uint64_t kStageBytes = 256 * kKiB.count;

// Pauses before the retries: 1, 4, 16 ms. Long enough for a path to fail over to another, short
// enough that a disk that is gone is reported within the step.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr int kPauseFactor = 4;

constexpr std::uint64_t round_down(std::uint64_t bytes) { return bytes & ~(kExtentGranule - 1); }

bool worth_retrying(int error) { return error == EIO || error == EAGAIN; }

/// One pread or pwrite; bytes moved or -errno.
std::int64_t call_once(const Piece& piece, const PieceRun::Call& call) {
  if (call.delay.count() > 0) {
    std::this_thread::sleep_for(call.delay);
  }
  if (call.error != 0) {
    return -call.error;
  }
  const auto offset = static_cast<off_t>(piece.offset);
  const ssize_t moved = piece.direction == Direction::kOut
                            ? ::pwrite(piece.descriptor, piece.memory, call.ask, offset)
                            : ::pread(piece.descriptor, piece.memory, call.ask, offset);
  return moved >= 0 ? moved : -errno;
}

/// Moves the whole piece; an errno, 0 when done.
int move_piece(const Piece& piece) {
  PieceRun run(piece);
  while (!run.ended()) {
    run.after(call_once(run.piece(), run.next_call()));
    if (run.pause().count() > 0) {
      std::this_thread::sleep_for(run.pause());
    }
  }
  return run.error();
}

/// Moves a direct piece of any address and length through an aligned buffer. On the disk the last
/// granule is padded with zeros.
int move_staged(const Piece& piece) {
  const std::uint64_t stage_bytes =
      std::min(kStageBytes, round_up({piece.length}, kExtentGranule).count);
  const std::unique_ptr<void, decltype(&std::free)> stage(
      std::aligned_alloc(kExtentGranule, stage_bytes), &std::free);
  if (stage == nullptr) {
    return ENOMEM;
  }
  auto* const buffer = static_cast<std::byte*>(stage.get());
  for (std::uint64_t begin = 0; begin < piece.length; begin += stage_bytes) {
    const std::uint64_t bytes = std::min(stage_bytes, piece.length - begin);
    const std::uint64_t padded = round_up({bytes}, kExtentGranule).count;
    if (piece.direction == Direction::kOut) {
      std::memcpy(buffer, piece.memory + begin, bytes);
      std::memset(buffer + bytes, 0, padded - bytes);
    }
    const int error =
        move_piece({piece.direction, piece.descriptor, true, buffer, piece.offset + begin, padded});
    if (error != 0) {
      return error;
    }
    if (piece.direction == Direction::kIn) {
      std::memcpy(piece.memory + begin, buffer, bytes);
    }
  }
  return 0;
}

int move_direct(const Piece& piece) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(piece.memory) % kExtentGranule == 0;
  const std::uint64_t in_place = aligned ? round_down(piece.length) : 0;
  Piece body = piece;
  body.length = in_place;
  Piece rest = piece;
  rest.memory += in_place;
  rest.offset += in_place;
  rest.length -= in_place;
  int error = move_piece(body);
  if (error == 0 && rest.length > 0) {
    error = move_staged(rest);
  }
  return error;
}

/// Writes the pages of a chunk to the disk and waits; an errno, 0 when done.
int write_through(const Piece& piece) {
  const int result = ::sync_file_range(
      piece.descriptor, static_cast<off_t>(piece.offset), static_cast<off_t>(piece.length),
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  if (result == 0) {
    return 0;
  }
  if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE) {
    return ::fdatasync(piece.descriptor) == 0 ? 0 : errno;
  }
  return errno;
}

int move_buffered(const Piece& piece) {
  int error = move_piece(piece);
  if (error == 0 && piece.direction == Direction::kOut) {
    error = write_through(piece);
    for (int retries = 0; worth_retrying(error) && retries < kIoRetries; ++retries) {
      // After a failed write-back the kernel counts the pages as clean: write them anew.
      error = move_piece(piece);
      error = error == 0 ? write_through(piece) : error;
    }
  }
  // Only advice: where it is not taken, the pages stay cached.
  static_cast<void>(::posix_fadvise(piece.descriptor, static_cast<off_t>(piece.offset),
                                    static_cast<off_t>(piece.length), POSIX_FADV_DONTNEED));
  return error;
}

}  // namespace

PieceRun::Call PieceRun::next_call() {
  const auto fault = fault_at(rest_.direction == Direction::kOut ? "spool.write" : "spool.read");
  Call call{rest_.length, 0, {}};
  if (fault) {
    call.delay = std::chrono::microseconds(std::max<std::int64_t>(fault->delay_us, 0));
    call.error = fault->error;
    if (fault->short_io) {
      // A direct call cannot move less than a granule.
      const std::uint64_t half = rest_.direct ? round_down(call.ask / 2) : call.ask / 2;
      call.ask = half == 0 ? call.ask : half;
    }
  }
  return call;
}

void PieceRun::after(std::int64_t moved) {
  pause_ = {};
  if (moved == -EINTR) {
    return;
  }
  // A direct call cannot go on in the middle of a granule: that granule is moved again.
  std::uint64_t advance = moved > 0 ? static_cast<std::uint64_t>(moved) : 0;
  advance = rest_.direct ? round_down(advance) : advance;
  if (advance > 0) {
    rest_.memory += advance;
    rest_.offset += advance;
    rest_.length -= advance;
    return;
  }
  if (moved >= 0 && rest_.direction == Direction::kIn) {
    error_ = ENODATA;  // nothing, or less than a granule: the file ends here
    return;
  }
  const int error = moved < 0 ? static_cast<int>(-moved) : EIO;
  if (!worth_retrying(error) || retries_ == kIoRetries) {
    error_ = error;
    return;
  }
  pause_ = kFirstPause;
  for (int i = 0; i < retries_; ++i) {
    pause_ *= kPauseFactor;
  }
  ++retries_;
}

void check_transfer(const Transfer& transfer) {
  SPILLWAY_CHECK(transfer.length <= transfer.extent.bytes &&
                     transfer.extent.offset % kExtentGranule == 0 &&
                     transfer.extent.bytes % kExtentGranule == 0,
                 fmt::format("{} bytes for extent {}+{}", transfer.length, transfer.extent.offset,
                             transfer.extent.bytes));
  SPILLWAY_CHECK(transfer.memory != nullptr || transfer.length == 0, "no memory");
}

bool is_direct(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

bool is_aligned(const Transfer& transfer) {
  return reinterpret_cast<std::uintptr_t>(transfer.memory) % kExtentGranule == 0 &&
         transfer.length % kExtentGranule == 0;
}

Piece piece_of(const Transfer& transfer, bool direct, std::uint64_t begin, std::uint64_t length) {
  return {transfer.direction,
          transfer.descriptor,
          direct,
          transfer.memory + begin,
          transfer.extent.offset + begin,
          length};
}

int move_chunk(const Transfer& transfer, bool direct, std::uint64_t begin, std::uint64_t length) {
  if (length == 0) {
    return 0;
  }
  const Piece piece = piece_of(transfer, direct, begin, length);
  return direct ? move_direct(piece) : move_buffered(piece);
}

}  // namespace spillway::runtime
