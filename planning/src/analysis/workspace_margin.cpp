// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/workspace_margin.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace spillway::planning
