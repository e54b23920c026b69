// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/workspace_margin.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning {

Bytes workspace_margin(const Trace& trace, double share, std::span<const std::uint8_t> known) {
  if (trace.workspace_known) return {};
  const AccessTable table(trace);
  std::uint64_t largest = 0;
  for (Row op = 0; op < table.ops(); ++op) {
    if (!known.empty() && known[op] != 0) continue;
    largest = std::max(largest, table.working_set(op));
  }
  return Bytes{static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(largest)))};
}

Budgets leaving_free(Budgets budgets, Bytes margin) {
  budgets[Tier::kDevice] = saturating_sub(budgets[Tier::kDevice], margin);
  return budgets;
}

StatedBudgets StatedBudgets::with_device(Bytes device) const {
  StatedBudgets other = *this;
  other.stated[Tier::kDevice] = device;
  return other;
}

Infeasible StatedBudgets::about_stated(Infeasible answer) const {
  Bytes& missing = answer.short_by[index_of(Tier::kDevice)];
  if (missing != Bytes{0}) {
    missing = saturating_sub(for_plans()[Tier::kDevice] + missing + margin, stated[Tier::kDevice]);
  }
  if (!answer.smallest_budget || margin == Bytes{0}) return answer;
  const std::string without = to_string(*answer.smallest_budget);
  *answer.smallest_budget += margin;
  for (std::string& remedy : answer.remedies) {
    if (const auto at = remedy.find(without); at != std::string::npos) {
      remedy.replace(at, without.size(), to_string(*answer.smallest_budget));
    }
  }
  return answer;
}

}  // namespace spillway::planning
