// SPDX-License-Identifier: Apache-2.0
// Transient storages: what the recomputations attached to one op make for each other.
//
//     actions at op 40      recompute conv     recompute norm     recompute relu
//     out of conv           made            read: freed
//     out of norm                           made            read: freed
//     out of relu                                           comes back
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning::sim {

class RecomputeGroup {
 public:
  explicit RecomputeGroup(const Trace& trace) : trace_(trace) {}

  /// The actions of the next op. Transients of the last are gone.
  void begin(std::span<const PlanAction> actions);

  [[nodiscard]] bool has_transient(StorageId storage) const {
    return !made_.empty() && made_[to_value(storage)];
  }
  /// The recomputation at `position` makes the storage, which is neither alive here nor dropped.
  /// True if a later recomputation of the group reads it: then it is transient from now on.
  bool keep(StorageId storage, std::size_t position);
  /// The recomputation at `position` has run: the bytes of transients that it was the last to read.
  Bytes read_by(OpIndex op, std::size_t position);

 private:
  const Trace& trace_;
  // By storage, and empty until the first recomputation of all: the last position in the group that
  // reads it, plus one; whether it is there.
  std::vector<std::uint32_t> last_reader_;
  std::vector<bool> made_;
  std::vector<StorageId> touched_;
};

}  // namespace spillway::planning::sim
