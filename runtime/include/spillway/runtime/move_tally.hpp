// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// How much each kind of storage moved: those that one op made in one size. Keeps 1,024 kinds: of a
/// program whose shapes never come again, those that moved least are left out, so that what moves
/// most is right and the rest is a lower bound. A move costs the same however many there were. Not
/// thread-safe.
class MoveTally {
 public:
  static constexpr std::size_t kMostKinds = 1024;

  /// `made_by` is interned; null: unknown.
  void add(const char* made_by, Bytes size);

  struct Moved {
    std::string name;
    Bytes bytes;
  };
  /// Largest first.
  [[nodiscard]] std::vector<Moved> top(std::size_t count) const;
  [[nodiscard]] std::size_t kinds() const { return moved_.size(); }

 private:
  struct Kind {
    const char* made_by;
    Bytes size;
    bool operator==(const Kind&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Kind& kind) const;
  };
  void discard_least_half();

  std::unordered_map<Kind, Bytes, Hash> moved_;
};

}  // namespace spillway::runtime
