// SPDX-License-Identifier: Apache-2.0
// Meng, Sun, Yang, Qiu, Gu, "Training deeper models by GPU memory optimization on TensorFlow", ML
// Systems workshop at NIPS 2017. See docs/planners/README.md.
#include <algorithm>
#include <array>

#include "pass/range_max.hpp"
#include "planner/gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

const std::array kFields{
    OptionField{"least-bytes", "Smaller feature maps stay.", std::int64_t{0}, 0},
    OptionField{"lead",
                "Swapping in is triggered this many copy times before the use, by the critical "
                "path; 0: at the use.",
                1.0, 0, 1000},
};

struct Choice {
  Row touch;
  TimeNs lifetime;
};

// Feature maps by the length of the critical path over their longest gap, longest first.
std::vector<Choice> candidates(const Problem& problem, const StepModel& model,
                               std::uint64_t least_bytes) {
  const AccessTable& table = model.table;
  std::vector<Choice> found;
  for (Row s = 0; s < table.storages(); ++s) {
    if (!is_feature_map(problem, table, s) || table.bytes(s) < least_bytes) continue;
    Choice longest{kNoRow, 0};
    for (Row row = table.first_touch(s); row != kNoRow; row = table.next_touch(row)) {
      const Row next = table.next_touch(row);
      if (next == kNoRow) break;
      const TimeNs gap = model.start[table.op_of(next)] - model.start[table.op_of(row) + 1];
      if (gap > longest.lifetime) longest = {row, gap};
    }
    if (longest.touch != kNoRow) found.push_back(longest);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Choice& a, const Choice& b) { return a.lifetime > b.lifetime; });
  return found;
}

std::optional<Plan> attempt(const Problem& problem, const StepModel& model, const Planner& planner,
                            const Options& options, double lead) {
  const AccessTable& table = model.table;
  const std::vector<std::int64_t> all = bytes_per_op(model);
  RangeMax bytes(all);
  const auto budget = static_cast<std::int64_t>(model.budget(Tier::kDevice));
  Draft draft(table);
  if (!all.empty() && bytes.max() > budget && model.has_host()) {
    const auto least = static_cast<std::uint64_t>(options.get<std::int64_t>("least-bytes"));
    for (const Choice& choice : candidates(problem, model, least)) {
      if (bytes.max() <= budget) break;
      const Row storage = table.touch(choice.touch).storage;
      const Row out = table.op_of(choice.touch) + 1;
      const Row use = table.op_of(table.next_touch(choice.touch));
      const double copy = model.copy_ns(LinkKind::kHostToDevice, table.bytes(storage));
      const auto trigger = model.start[use] - static_cast<TimeNs>(lead * copy);
      const auto after = std::upper_bound(model.start.begin(), model.start.end(), trigger);
      const auto at = std::max<std::ptrdiff_t>(after - model.start.begin() - 1, out);
      const Row in = std::min(static_cast<Row>(at), use);
      if (out >= in || bytes.max(out, in) <= budget) continue;
      draft.gap[choice.touch] = {.remedy = Remedy::kHost, .out_at = out, .in_at = in};
      bytes.add(out, in, -static_cast<std::int64_t>(table.bytes(storage)));
    }
  }
  if (!all.empty() && bytes.max() > budget) return std::nullopt;
  return checked_plan(problem, model, draft, label_of(planner, options));
}

class SwapCriticalPathPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "swap-critical-path"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Swaps the feature maps with the longest lifetimes to the host and back along the "
           "critical path (Meng et al. 2017).";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const double lead = options.get<double>("lead");
    return outcome_of(problem, context, [&](const Problem& p, const StepModel& m) {
      std::optional<Plan> plan = attempt(p, m, *this, options, lead);
      // Early triggers take memory: where that is what is short, later ones.
      if (!plan && lead > 0) plan = attempt(p, m, *this, options, lead / 4);
      if (!plan && lead > 0) plan = attempt(p, m, *this, options, 0);
      return plan;
    });
  }
};

}  // namespace

const Planner& swap_critical_path_planner() {
  static const SwapCriticalPathPlanner planner;
  return planner;
}

}  // namespace spillway::planning
