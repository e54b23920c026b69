// SPDX-License-Identifier: Apache-2.0
// Makes room on the device under a pass: looks at what may leave, has the cheapest go, and decides
// for each whether it is copied or dropped. sweep.hpp tells how candidates are priced.
#pragma once

#include <cstdint>

#include "pass/pass_state.hpp"

namespace spillway::planning::pass {

class RoomMaker {
 public:
  /// Refers to `state`.
  explicit RoomMaker(PassState& state) : state_(state) {}

  /// Has storages leave before op `op` until `need` bytes fit, of those used after `keep_until`.
  /// False if it does not fit: `short_by` tells by how much.
  bool make_room(Row op, std::uint64_t need, Row keep_until);
  [[nodiscard]] std::uint64_t short_by() const { return short_by_; }

  /// The storage leaves before op `op`, copied to `tier` unless a copy is there.
  void leave_by_copy(Row op, Row storage, Tier tier);
  /// It is dropped before op `op`, and `set` runs again before its next use.
  void drop(Row op, Row storage, const RecomputeSet& set);
  /// A recomputation before op `at` will read the storage.
  void pledge(Row storage, Row at);

 private:
  struct Way {  // in which a storage could leave
    Remedy remedy = Remedy::kKeep;
    double score = 0;
    RecomputeSet set;  // kDrop, where it shall come back
  };

  bool evict_one(Row op, Row keep_until, std::uint64_t wanted);
  /// The cost, per byte and time, of letting `storage` leave, where `wanted` bytes are short.
  [[nodiscard]] Way price(Row op, Row storage, std::uint64_t wanted) const;
  [[nodiscard]] double swap_cost(Row op, Row storage, Tier tier) const;
  [[nodiscard]] bool may_be_nowhere(Row storage) const;
  void give_up_fetch(Row storage);
  /// The choice for one more stretch of time away within the gap.
  GapChoice& new_choice(Row storage);
  /// When the copy out is queued, and what room it takes meanwhile.
  void place_copy_out(Row op, Row storage, Tier tier, GapChoice& choice);

  PassState& state_;
  std::uint64_t short_by_ = 0;
};

}  // namespace spillway::planning::pass
