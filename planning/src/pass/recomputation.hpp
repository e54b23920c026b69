// SPDX-License-Identifier: Apache-2.0
// Finds the ops that run again to have dropped storages back, what that costs, and whether it fits.
//
//     roots        what op `at` needs and is dropped
//     ops          those that make the roots, and what these read that is dropped or dead, and so
//     on leaves       what they read that is there
//
// Ops run again in the order of the step, before `at`. What they make of dropped storages comes
// back and stays; other results are transient, and gone after their last reader among the ops.
//
// Source: recomputation of SuperNeurons (Wang et al. 2018); the choice by cost of
// Capuchin (Peng et al. 2020).
#pragma once

#include <cstdint>
#include <vector>

#include "pass/next_uses.hpp"
#include "pass/op_variants.hpp"
#include "pass/pass_item.hpp"
#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

struct RecomputeSet {
  bool possible = false;
  double cost = 0;          ///< ns
  std::vector<Row> ops;     ///< ascending
  std::vector<Row> leaves;  ///< storages, each once
  std::vector<Row>
      again;  ///< storages that come back and are dropped again after their last reader
};

/// Bytes that ops running again make: the most they hold at once, and what of it stays.
struct RecomputeBytes {
  std::uint64_t most = 0;
  std::uint64_t left = 0;
};

/// Looks at the pass as it stands, and changes nothing. `also_dropped` names a storage that counts
/// as dropped though it is not; kNoRow: none.
class Recomputation {
 public:
  /// Refers to all of them. `capacity`: bytes of the device. `transients`: what is dead may be made
  /// again.
  Recomputation(const StepModel& model, const std::vector<PassItem>& items, const NextUses& uses,
                const OpVariants& variants, std::uint64_t capacity, bool transients);

  /// The dropped storages that an op touches.
  [[nodiscard]] std::vector<Row> dropped_of(Row op, Row also_dropped) const;
  [[nodiscard]] RecomputeSet set_for(const std::vector<Row>& roots, Row at, Row also_dropped) const;
  [[nodiscard]] RecomputeBytes bytes_of(const RecomputeSet& set, Row also_dropped) const;
  /// Whether the ops fit beside what op `at` needs of what they do not make, and then `at` itself.
  [[nodiscard]] bool fits(const RecomputeSet& set, Row at, Row also_dropped) const;
  /// Has the set drop again what comes back only for others to be made, and can be made once more.
  void drop_between(RecomputeSet& set, Row at, Row also_dropped) const;
  /// The ops that run again before the next use of `storage` if it is dropped too; `cost`: ns more
  /// than what runs again there already. Not possible where it does not fit or is too long a chain.
  [[nodiscard]] RecomputeSet if_dropped(Row storage, double& cost) const;
  /// The last of the set's ops that makes or reads a storage.
  [[nodiscard]] Row last_reader(const RecomputeSet& set, Row storage) const;

 private:
  [[nodiscard]] bool is_dropped(Row storage, Row also_dropped) const {
    return items_[storage].where == Where::kDropped || storage == also_dropped;
  }
  /// Appends what an op reads to the set's leaves or, where it must be made too, its maker to
  /// `open`. False where it cannot be had.
  [[nodiscard]] bool add_inputs(Row op, Row at, Row also_dropped, RecomputeSet& set,
                                std::vector<Row>& open) const;

  const StepModel& model_;
  const AccessTable& table_;
  const std::vector<PassItem>& items_;
  const NextUses& uses_;
  const OpVariants& variants_;
  std::uint64_t capacity_;
  bool transients_;
};

}  // namespace spillway::planning::pass
