// SPDX-License-Identifier: Apache-2.0
#include "search/refine.hpp"

#include <algorithm>

#include "spillway/plan/validator.hpp"

namespace spillway::planning {
namespace {

/// The op of a gap's end as a position.
Row use_of(const AccessTable& table, const GapEnd& end) {
  return table.op_of(end.touch) + (end.wraps ? table.ops() : 0);
}

}  // namespace

Refiner::Refiner(const Problem& problem, const StepModel& model, SettingsSearch& search,
                 const SweepSettings& allowed)
    : problem_(problem),
      model_(model),
      search_(search),
      recompute_(allowed.recompute),
      prefetch_(allowed.prefetch),
      early_out_(allowed.early_out) {
  const std::vector<StorageRule>& rule = allowed.rules.rule;
  for (Row row = 0; row < model.table.touches(); ++row) {
    if (!rule.empty() && rule[model.table.touch(row).storage] == StorageRule::kKeep) continue;
    const GapEnd end = end_of_gap(model.table, row);
    if (end.touch == kNoRow) continue;
    if (use_of(model.table, end) > model.table.op_of(row) + 1) gaps_.push_back(row);
  }
}

void Refiner::refine(Candidate& candidate, int turns) {
  if (gaps_.empty()) return;
  for (int turn = 0; turn < turns && !search_.time_is_up(); ++turn) {
    if (search_.good_enough(candidate.step_ns)) return;
    search_.tell(static_cast<double>(turn) / turns, "improving");
    Draft draft = candidate.draft;
    bool changed = change(draft);
    // Some improvements need two changes at once: room made here for a copy kept there.
    while (random_.below(3) == 0) changed = change(draft) || changed;
    if (!changed) continue;
    Plan plan = write_plan(problem_, model_, draft, candidate.plan.planner);
    if (validate(plan, problem_.trace, problem_.budgets)) continue;
    const std::optional<double> step = search_.settled(plan, candidate.step_ns);
    if (!step || *step > candidate.step_ns) continue;
    candidate.step_ns = *step;
    candidate.draft = std::move(draft);
    candidate.plan = std::move(plan);
  }
}

bool Refiner::change(Draft& draft) { return change_gap(draft, gaps_[random_.below(gaps_.size())]); }

bool Refiner::change_gap(Draft& draft, Row touch) {
  const AccessTable& table = model_.table;
  GapChoice& choice = draft.gap[touch];
  if (choice.more != kNoRow) return false;
  const GapEnd end = end_of_gap(table, touch);
  const Row use = use_of(table, end);
  const Row from = table.op_of(touch) + 1;
  const Row again = model_.recompute_op[table.touch(touch).storage];
  const auto recompute =
      std::find(draft.recomputations.begin(), draft.recomputations.end(), Recompute{use, again});
  const bool recomputed = choice.remedy == Remedy::kDrop;
  if (recomputed && recompute == draft.recomputations.end()) return false;
  const Tier slower =
      model_.has_host() && model_.budget(Tier::kHost) > 0 ? Tier::kHost : Tier::kDisk;
  const Remedy copied = slower == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
  const auto copy = [&] {
    const Row in = prefetch_ ? from + 1 + static_cast<Row>(random_.below(use - from)) : use;
    choice = {.remedy = copied, .out_at = from, .in_at = in};
  };
  const std::uint64_t kind = random_.below(4);
  if (recomputed) {
    draft.recomputations.erase(recompute);
    choice = {};
    if (kind != 0 && early_out_) copy();
    return true;
  }
  if (choice.remedy == Remedy::kKeep || kind == 0) {
    const bool may = recompute_ && !end.wraps && again != kNoRow && random_.below(2) == 0;
    if (may) {
      choice = {.remedy = Remedy::kDrop, .out_at = from};
      if (recompute == draft.recomputations.end()) draft.recomputations.push_back({use, again});
    } else if (choice.remedy == Remedy::kKeep) {
      if (!early_out_) return false;
      copy();
    } else {
      choice = {};
    }
    return true;
  }
  const Row in = std::min(choice.in_at, use);
  if (kind == 1 && in > from + 1) {
    if (!early_out_) return false;
    choice.out_at = from + static_cast<Row>(random_.below(std::min<Row>(in - from, 8)));
    return true;
  }
  if (!prefetch_) return false;
  choice.in_at = choice.out_at + 1 + static_cast<Row>(random_.below(use - choice.out_at));
  return true;
}

}  // namespace spillway::planning
