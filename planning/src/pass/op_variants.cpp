// SPDX-License-Identifier: Apache-2.0
#include "pass/op_variants.hpp"

namespace spillway::planning::pass {

OpVariants::OpVariants(const StepModel& model) : model_(model), duration_(model.duration) {
  const AccessTable& table = model.table;
  workspace_.reserve(table.ops());
  for (Row op = 0; op < table.ops(); ++op) workspace_.push_back(table.workspace(op));
}

bool OpVariants::has_alternatives(Row op) const {
  const AlternativeLists& others = model_.alternatives;
  return others.offsets.size() >= 2 && !others[OpIndex{op}].empty();
}

std::optional<std::uint32_t> OpVariants::choose(Row op, std::uint64_t room) {
  const auto better = [&](TimeNs time, std::uint64_t workspace, TimeNs best_time,
                          std::uint64_t best_workspace) {
    if ((workspace <= room) != (best_workspace <= room)) return workspace <= room;
    return workspace <= room ? time < best_time : workspace < best_workspace;
  };
  std::uint32_t number = 0;
  std::optional<std::uint32_t> chosen;
  for (const OpAlternative& other : model_.alternatives[OpIndex{op}]) {
    if (better(other.duration_ns, other.workspace.count, duration_[op], workspace_[op])) {
      duration_[op] = other.duration_ns;
      workspace_[op] = other.workspace.count;
      chosen = number;
    }
    ++number;
  }
  return chosen;
}

}  // namespace spillway::planning::pass
