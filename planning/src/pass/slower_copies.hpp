// SPDX-License-Identifier: Apache-2.0
// The copies that storages have on host and disk, and the room that is left there.
#pragma once

#include <cstdint>
#include <optional>

#include "pass/pass_item.hpp"
#include "pass/tier_level.hpp"
#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

class SlowerCopies {
 public:
  /// Holds nothing. Refers to `model`.
  explicit SlowerCopies(const StepModel& model);

  /// `item` is that of `storage` throughout. The copy is there before op `at` and from then on.
  void add(PassItem& item, Row storage, Tier tier, Row at);
  /// All copies of the storage are given up after op `op`.
  void remove_all(PassItem& item, Row storage, Row op);
  /// The tier that the storage's bytes may go to at op `at`: one with a copy, else the fastest with
  /// room.
  [[nodiscard]] std::optional<Tier> tier_for(const PassItem& item, Row storage, Row at) const;
  /// The first op from `from` on before which a copy may be made that stays until op `at`.
  [[nodiscard]] Row earliest(Tier tier, std::uint64_t bytes, Row from, Row at) const {
    return (tier == Tier::kHost ? host_ : disk_).earliest(bytes, from, at);
  }

 private:
  const StepModel& model_;
  TierLevel host_, disk_;
};

}  // namespace spillway::planning::pass
