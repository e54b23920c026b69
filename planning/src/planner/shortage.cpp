// SPDX-License-Identifier: Apache-2.0
#include "planner/shortage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cost/floor.hpp"

namespace spillway::planning {
namespace {

std::string op_words(const Problem& problem, Row op) {
  return fmt::format("op {} ({})", op, problem.trace.ops.name[op]);
}

// With fewer tries than this only the device budget is searched for: each is a pass over a long
// step.
constexpr int kTriesPerTier = 4;

// The least budget of one tier that fits, those of the others unchanged and none below `low`, to a
// thousandth of the range, from asking for halves of it.
std::optional<Bytes> smallest_on(Tier tier, std::uint64_t low, const Problem& problem,
                                 const StepModel& model, const FitsBudgets& fits, int most_tries) {
  const auto fits_with = [&](std::uint64_t bytes) {
    Budgets budgets = problem.budgets;
    budgets[tier] = Bytes{bytes};
    return fits(budgets);
  };
  std::uint64_t high = std::max(low, model.table.alive(model.table.op_with_most_alive()));
  if (fits_with(low)) return Bytes{low};
  if (!fits_with(high)) return std::nullopt;
  for (int tries = 2; tries < most_tries && high - low > high / 1024 + 1; ++tries) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits_with(middle) ? high : low) = middle;
  }
  return Bytes{high};
}

void add_remedies_of_the_floor(const Problem& problem, const StepModel& model, const Floor& floor,
                               Infeasible& answer) {
  const Bytes least = answer.smallest_budget.value_or(Bytes{floor.bytes});
  const Row op = floor.op;
  std::string needs = fmt::format("{} needs as much at once", op_words(problem, op));
  if (floor.of_inputs) {
    needs = fmt::format("the step begins with inputs of {} on the device",
                        to_string(Bytes{floor.bytes}));
  } else if (least.count > floor.bytes) {
    needs = fmt::format("{} alone needs {} at once", op_words(problem, op),
                        to_string(Bytes{floor.bytes}));
  }
  answer.remedies.push_back(
      fmt::format("Raise the device budget to {} or more: {}.", to_string(least), needs));
  if (floor.of_inputs) return;
  const std::size_t touched = model.table.last_touch_of_op(op) - model.table.first_touch_of_op(op);
  if (touched > 8) {
    answer.remedies.push_back(
        fmt::format("Split {}, which touches {} storages at once, into smaller groups.",
                    op_words(problem, op), touched));
  }
  if (model.table.workspace(op) > floor.bytes / 4) {
    answer.remedies.push_back(fmt::format("Choose a kernel with less than {} of workspace for {}.",
                                          to_string(Bytes{model.table.workspace(op)}),
                                          op_words(problem, op)));
  }
}

// The size that each tier below the device would need on its own.
void add_remedies_below(const StepModel& model, Infeasible& answer) {
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    const Bytes missing = answer.short_by[index_of(tier)];
    if (missing == Bytes{0}) continue;
    const bool there = model.budget(tier) > 0;
    const std::string_view name = tier == Tier::kHost ? "host memory" : "disk";
    answer.remedies.push_back(
        there ? fmt::format("Give {} more {}.", to_string(missing), name)
              : fmt::format("Add a {} tier of {} or more.", to_string(tier), to_string(missing)));
  }
}

}  // namespace

Infeasible explain_shortage(const Problem& problem, const StepModel& model, const FitsBudgets& fits,
                            int most_tries) {
  Infeasible answer;
  const Floor floor = floor_of(model);
  const std::uint64_t device = model.budget(Tier::kDevice);
  const bool below_floor = floor.bytes > device;
  const std::uint64_t short_in_all = short_on_all_tiers(model);
  answer.op = OpIndex{below_floor        ? floor.op
                      : short_in_all > 0 ? floor_of_all_tiers(model).op
                                         : model.table.op_with_most_alive()};
  const std::uint64_t more = std::max<std::uint64_t>(short_in_all, 1);
  answer.smallest_budget = smallest_on(Tier::kDevice, std::max(device + more, floor.bytes), problem,
                                       model, fits, most_tries);
  Bytes& on_device = answer.short_by[index_of(Tier::kDevice)];
  on_device = saturating_sub(Bytes{floor.bytes}, Bytes{device});
  if (answer.smallest_budget) on_device = *answer.smallest_budget - Bytes{device};
  if (below_floor) {
    add_remedies_of_the_floor(problem, model, floor, answer);
    return answer;
  }
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    if (most_tries < kTriesPerTier) break;
    const auto least =
        smallest_on(tier, model.budget(tier) + more, problem, model, fits, most_tries);
    if (least) answer.short_by[index_of(tier)] = *least - Bytes{model.budget(tier)};
  }
  add_remedies_below(model, answer);
  if (answer.smallest_budget) {
    answer.remedies.push_back(
        fmt::format("Raise the device budget to {}.", to_string(*answer.smallest_budget)));
  }
  return answer;
}

}  // namespace spillway::planning
