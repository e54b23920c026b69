// SPDX-License-Identifier: Apache-2.0
// Foretells when each of several objects is used next, where rounds of uses repeat.
//
//     uses of all, counted    ... 40  41  42 | 43  44  45  46 | 47 ...
//     of this object                  41       44  45            ?
//                                     period 4, from the ends of rounds: 48 and 49
//
// Somebody tells when a round ends. Rounds of several kinds may alternate: the period is the number
// of uses between two ends of one kind, with those of other kinds in between. An object is used
// again a period after each of its latest uses. Threads come to ops in another order each time, so
// a use that is a little early or late is the one that was foretold.
//
// It is for evicting by furthest next use (Belady 1966, docs/references.md), with the last rounds
// in place of the future. Where a round goes through more than finds room, the object that was used
// longest ago is the one that is used next.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace spillway::tf {

class UseForecast {
 public:
  /// The uses of an object that have not come again, by their numbers; the oldest first.
  using Uses = std::deque<std::uint64_t>;

  void used(Uses& object);
  void round_ended(std::uint64_t kind);

  /// Uses of any object from now until the next of this one, 0 if it is late. Nothing where none is
  /// foretold: no round has come twice, or the object has not been used for a period.
  [[nodiscard]] std::optional<std::uint64_t> until_next(const Uses& object) const;

 private:
  struct Rounds {
    std::uint64_t end = 0;  // of the last
    std::uint64_t gap = 0;  // between the last two; 0: there was one
  };

  /// By how much a use may be early or late.
  [[nodiscard]] std::uint64_t slack() const;
  /// Whether the object is to be used a period after this use, which has not come yet.
  [[nodiscard]] bool is_to_come(std::uint64_t use) const;

  std::uint64_t now_ = 0;  // uses so far
  std::uint64_t period_ = 0;
  std::uint64_t longest_ = 0;      // period of any kind
  std::uint64_t known_since_ = 0;  // the present period
  std::map<std::uint64_t, Rounds> rounds_;
};

}  // namespace spillway::tf
