// SPDX-License-Identifier: Apache-2.0
// Chooses the storages to evict when the device needs room.
//
// Furthest next use first (L. A. Belady, "A study of replacement algorithms for a virtual-storage
// computer", IBM Systems Journal 5(2), 1966), on bytes instead of equal pages. All uses are op
// indices; what counts is the distance from now:
//
//   next use known        next_use - now
//   never used again      infinite
//   unknown, or past      now - last_use: what has not been used for n ops is expected to be left
//                         alone for about n more. Without known uses the order is thus exactly
//                         least recently used, and both kinds compare in one unit.
//
// A clean candidate counts as 10 % further away: leaving costs it no transfer. (A weight, and not
// a rule "clean first if within 10 % of each other", which is not transitive and orders nothing.)
//
// A pure function; any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::residency {

/// A next use where the recorded step never touches the storage again. Sorts behind every real one.
inline constexpr std::uint64_t kNeverUsed = std::numeric_limits<std::uint64_t>::max();
/// A next use of which nothing is known. Op 0 is nobody's next op.
inline constexpr std::uint64_t kUnknownUse = 0;

struct Candidate {
  StorageId id;
  Bytes bytes;
  std::uint64_t last_use;  ///< op index
  std::uint64_t next_use;  ///< op index, kNeverUsed or kUnknownUse
  bool clean;              ///< a current copy lies on a slower tier
};

/// How late a storage is wanted that is used again in `distance` ops, or kNeverUsed: the distance
/// in tenths, so that 10 % is exact, of a clean one 10 % more. Storages with more leave first.
std::uint64_t weighted_distance(std::uint64_t distance, bool clean);

/// Victims that together have at least `needed` bytes, or all candidates if they have less;
/// furthest next use first. None of them could be left out. Where the last victim would free more
/// than twice what is missing, smaller ones used at least half as far ahead, out of the next 64,
/// are taken instead if they suffice with half its bytes. Candidates without bytes are never taken.
/// Without `now`, the op after the latest use among the candidates is meant.
/// O(n + v log n) for n candidates of which v are looked at.
std::vector<StorageId> choose_victims(std::span<const Candidate> candidates, Bytes needed,
                                      std::optional<std::uint64_t> now = std::nullopt);

/// Candidates one after the other, furthest next use first, as `leaves_before` says.
class LeavingOrder {
 public:
  virtual ~LeavingOrder() = default;
  /// The next one, which stays where it is until the choice is made; null behind the last.
  virtual const Candidate* next() = 0;
};

/// A strict order of all candidates at op `now`, by distance, then clean ones, then large ones.
bool leaves_before(const Candidate& a, const Candidate& b, std::uint64_t now);

/// The same choice from candidates that are in order already, of which it takes no more than it
/// looks at.
std::vector<StorageId> choose_victims(LeavingOrder& order, Bytes needed, std::uint64_t now);

}  // namespace spillway::residency
