// SPDX-License-Identifier: Apache-2.0
// A plan's decisions: about storages, and about how ops run.
//
// Borrows trace and uses. Immutable, so that several threads may ask.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "explain/plan_variants.hpp"
#include "explain/storage_uses.hpp"
#include "request/planning_request.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

class PlanDecisions {
 public:
  PlanDecisions(const Trace& trace, const Plan& plan, const StorageUses& uses);

  /// Throws UserError if the op or the storage asked for is not in the trace.
  void refuse_what_is_not_there(const PlanningRequest& request) const;
  /// About the storages asked for, the largest first. One asked for by name is among them though
  /// nothing is done with it.
  [[nodiscard]] std::vector<Decision> about_storages(const PlanningRequest& request) const;
  /// Of ops that run another way than recorded; none where one storage was asked for.
  [[nodiscard]] std::vector<PlanAction> choices(const PlanningRequest& request) const;
  /// The name by which people know a storage: its name, else the op that makes it.
  [[nodiscard]] std::string origin(StorageId storage) const;

 private:
  void collect(const Plan& plan);
  void add(StorageId storage, const PlanAction& action);
  [[nodiscard]] bool is_named(StorageId storage, const std::string& name) const;

  const Trace& trace_;
  const StorageUses& uses_;
  std::map<StorageId, Decision> decisions_;
  std::vector<PlanAction> choices_;
};

/// "op 12, aten::mm"; the end of the step is an op, too.
std::string op_text(const Trace& trace, OpIndex op);

}  // namespace spillway::tools
