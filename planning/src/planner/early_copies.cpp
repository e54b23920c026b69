// SPDX-License-Identifier: Apache-2.0
#include "early_copies.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "planner/gap_planner.hpp"

namespace spillway::planning {
namespace {

struct Return {
  Row touch = 0;
  Row use = 0;  // past the number of ops where it is in the next step
};

double copy_in_ns(const StepModel& model, Remedy from, std::uint64_t bytes) {
  const double host = model.copy_ns(LinkKind::kHostToDevice, bytes);
  if (from == Remedy::kHost) return host;
  const double disk = model.copy_ns(LinkKind::kDiskToHost, bytes);
  return disk + (model.has_host() ? host : 0);
}

}  // namespace

Draft with_early_copies(const StepModel& model, const Draft& draft, double reach) {
  const AccessTable& table = model.table;
  const Row ops = table.ops();
  Draft early = draft;
  std::vector<Return> returns;
  for (Row row = 0; row < table.touches(); ++row) {
    GapChoice& choice = early.gap[row];
    if (choice.remedy != Remedy::kHost && choice.remedy != Remedy::kDisk) continue;
    choice.out_at = std::min(choice.out_at, table.op_of(row) + 1);
    const GapEnd end = end_of_gap(table, row);
    if (end.touch == kNoRow) continue;
    returns.push_back({row, table.op_of(end.touch) + (end.wraps ? ops : 0)});
  }
  std::stable_sort(returns.begin(), returns.end(),
                   [](const Return& a, const Return& b) { return a.use > b.use; });
  std::vector<std::int64_t> bytes = bytes_per_op(model, early);
  const auto budget = static_cast<std::int64_t>(model.budget(Tier::kDevice));
  const auto time = [&](Row position) {
    const auto period = static_cast<double>(model.start[ops]);
    return static_cast<double>(model.start[position % ops]) + (position >= ops ? period : 0);
  };
  double begins = std::numeric_limits<double>::max();  // the copy that comes next after
  for (const Return& gap : returns) {
    GapChoice& choice = early.gap[gap.touch];
    const std::uint64_t size = table.bytes(table.touch(gap.touch).storage);
    begins = std::min(begins, time(gap.use)) - reach * copy_in_ns(model, choice.remedy, size);
    Row at = gap.use;
    while (at > choice.out_at + 1 && time(at) > begins &&
           bytes[(at - 1) % ops] + static_cast<std::int64_t>(size) <= budget) {
      --at;
      bytes[at % ops] += static_cast<std::int64_t>(size);
    }
    if (at < gap.use) choice.in_at = at;
    begins = std::max(begins, time(at) - reach * copy_in_ns(model, choice.remedy, size));
  }
  return early;
}

}  // namespace spillway::planning
