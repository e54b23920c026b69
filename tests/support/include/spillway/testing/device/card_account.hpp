// SPDX-License-Identifier: Apache-2.0
// How much of a stand-in card's memory is taken: by one process, or by all that share the card.
#pragma once

#include <cstdint>
#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::testing {

/// Guarded by its owner's lock within a process, and by a lock on the file among processes. What a
/// process held that is gone is free again, as with a driver.
class CardAccount {
 public:
  /// With a file, which is made if it isn't there, all processes with the same file share the
  /// memory; at most kMembers at once. Empty: this process has it alone.
  CardAccount(Bytes memory, const std::string& file);
  ~CardAccount();
  CardAccount(const CardAccount&) = delete;
  CardAccount& operator=(const CardAccount&) = delete;

  /// False if there is not so much left.
  bool take(Bytes bytes);
  void give_back(Bytes bytes);

  [[nodiscard]] Bytes free() const;
  /// Of this process.
  [[nodiscard]] Bytes used() const;

 private:
  static constexpr int kMembers = 8;
  struct Member {
    std::int64_t process;
    std::uint64_t bytes;
  };
  class FileLock;

  [[nodiscard]] Bytes taken_by_others() const;

  const Bytes memory_;
  int file_ = -1;
  Member* members_;  // kMembers of them
  Member* own_;
};

}  // namespace spillway::testing
