// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/op_cost.hpp"
#include "ops/op_origins.hpp"
#include "ops/recorded_op_facts.hpp"
#include "spillway/runtime/exec/engine.hpp"

namespace spillway::torch {

/// Facts of the outermost op that a thread runs, for the trace, beyond the storages it touches:
/// what it costs, whether it could be run again, where it comes from. The costs of an op that only
/// calls others are the sum of theirs. One per thread; without locks of its own.
///
///     begin(outermost)   [enter(leaf) ... leave(leaf)] ...   notes
class TracedOp {
 public:
  void begin(const at::RecordFunction& function);
  /// An op begins within, or is the outermost. True if it is a leaf, which `leave` must end; what
  /// runs within a leaf is no leaf.
  bool enter(runtime::Engine& engine, const at::RecordFunction& function);
  void leave(const at::RecordFunction& function);
  /// Valid until the next `begin`.
  [[nodiscard]] runtime::OpNotes notes() const;

 private:
  void input(runtime::Engine& engine, const at::Tensor& tensor, bool written, bool overwritten);

  OpOrigins::Origin origin_{};
  const RecordedOpFacts* leaf_ = nullptr;  // the one that runs
  OpCost cost_;                            // its
  bool costs_ = false;                     // cost_ can be counted
  std::optional<std::uint64_t> flop_;
  std::uint64_t bytes_ = 0;
  Arithmetic arithmetic_ = Arithmetic::kUnknown;
  bool pure_ = true;
  bool any_leaf_ = false;
  bool makes_inputs_ = false;
  std::vector<StorageId> overwritten_;
  std::vector<StorageId> read_;
};

}  // namespace spillway::torch
