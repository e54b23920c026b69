// SPDX-License-Identifier: Apache-2.0
// The machine's memory that is page-locked for a stand-in card, and the copies that use it.
//
// Copies of page-locked memory go on behind the caller's back: its locking may not end before they
// have. Not thread-safe: guarded by its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/testing/device/stream_queues.hpp"

namespace spillway::testing {

struct HostRange {
  HostRange(const std::byte* memory, Bytes size)
      : begin(reinterpret_cast<std::uintptr_t>(memory)), bytes(size.count) {}
  [[nodiscard]] std::uint64_t end() const { return begin + bytes; }

  std::uintptr_t begin;
  std::uint64_t bytes;
};

class LockedHost {
 public:
  explicit LockedHost(Bytes lockable) : lockable_(lockable) {}

  [[nodiscard]] bool has_room_for(const HostRange& range) const {
    return locked_bytes_ + Bytes{range.bytes} <= lockable_;
  }
  /// False if the range is empty or touches one that is locked.
  [[nodiscard]] bool lock(const HostRange& range);

  enum class Unlocked : std::uint8_t { kDone, kNothingThere, kInUse };
  /// Of all that was locked at `memory`.
  [[nodiscard]] Unlocked unlock(const std::byte* memory);

  /// Whether all of it is locked, at once.
  [[nodiscard]] bool contains(const HostRange& range) const;
  /// A copy uses the range until `mark` is passed.
  void note_copy(const HostRange& range, std::shared_ptr<StreamMark> mark);

 private:
  const Bytes lockable_;
  Bytes locked_bytes_{};
  std::map<std::uintptr_t, std::uint64_t> locked_;  // begin -> end
  std::vector<std::pair<HostRange, std::shared_ptr<StreamMark>>> copies_;
};

}  // namespace spillway::testing
