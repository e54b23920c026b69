// SPDX-License-Identifier: Apache-2.0
// Foretells when each of several objects is used next, where rounds of uses repeat.
//
//     uses of all, counted    ... 40  41  42 | 43  44  45  46 | 47 ...
//     of this object                  41       44  45            ?
//                                     period 4, from the ends of rounds: 48 and 49
//
// A round ends where its end is told. Rounds of several kinds may alternate: the period is the
// number of uses between two ends of one kind, those of others included. An object is used again a
// period after each of its latest uses. Threads come to ops in another order each time, so a use
// that is a little early or late is the one that was foretold.
//
// It is for evicting by furthest next use (Belady 1966, docs/references.md), with the last rounds
// in place of the future. Where a round goes through more than finds room, the least recently used
// is what is used next.
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
  /// The latest uses of an object, by their numbers; the oldest first.
  using Uses = std::deque<std::uint64_t>;

  void used(Uses& object);
  void round_ended(std::uint64_t kind);

  /// Uses of any object from now until the next of this one, 0 if it is late. Nothing where none is
  /// foretold: no round has come twice, or the object has not been used for a period.
  [[nodiscard]] std::optional<std::uint64_t> until_next(const Uses& object) const;
  /// Whether a round has come twice.
  [[nodiscard]] bool is_known() const { return period_ != 0; }

 private:
  [[nodiscard]] std::uint64_t slack() const;

  std::uint64_t now_ = 0;  // uses so far
  std::uint64_t period_ = 0;
  std::map<std::uint64_t, std::uint64_t> ends_;  // of each kind of round: the last, in uses
};

}  // namespace spillway::tf
