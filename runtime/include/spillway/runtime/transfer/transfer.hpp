// SPDX-License-Identifier: Apache-2.0
// One movement of bytes between memory and the spool file, and what came of it. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"

namespace spillway::runtime {

enum class Direction : std::uint8_t {
  kOut,  ///< memory to disk
  kIn,   ///< disk to memory
};

/// The order of starting where both wait: copies that the program waits for, or soon will, before
/// those that merely makes room ahead of need.
enum class Priority : std::uint8_t { kUrgent, kBackground };

struct Transfer {
  Direction direction = Direction::kOut;
  std::byte* memory = nullptr;
  Extent extent{};
  int descriptor = -1;
  std::uint64_t length = 0;  ///< bytes to move, at most extent.bytes; the rest of the extent is
                             ///< padding and may be overwritten
  /// A fetch stalls the program, writing behind does not.
  Priority priority = direction == Direction::kIn ? Priority::kUrgent : Priority::kBackground;
};

/// One movement of bytes within memory.
struct MemoryCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  Bytes bytes{};
  bool awaited = false;  ///< a program waits for it
};

struct TransferResult {
  int error = 0;            ///< errno of the first chunk that failed; 0: all bytes are in place
  std::uint64_t bytes = 0;  ///< moved; on an error those of the chunks that succeeded
  TimeNs duration = 0;      ///< from the start of the first chunk, so without time in the queue
  std::string said{};       ///< of the error, by whoever knows more than the errno
  /// An error: the memory to be filled, taken ahead of need, could not be had. Who needs the bytes
  /// now asks for memory again.
  bool unplaced = false;
};

/// Called exactly once, on a thread of the transfers', with no lock held. Must not throw, and must
/// not call drain() or before_fork(); it may submit.
using TransferDone = std::function<void(TransferResult)>;

/// Names a submitted transfer; never given twice by one object.
using TransferId = std::uint64_t;

/// Large enough that the cost of a call vanishes and a disk reaches full speed, small enough that a
/// storage of some tens of MiB is moved by several calls at once. See docs/disk.md for the
/// measurement.
inline constexpr std::uint64_t kTransferChunk = std::uint64_t{4} << 20;
inline constexpr int kIoRetries = 3;

}  // namespace spillway::runtime
