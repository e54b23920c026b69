// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/planner/shortage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "spillway/planning/tune/draft.hpp"

namespace spillway::planning {
namespace {

std::uint64_t missing(std::uint64_t need, std::uint64_t have) {
  return need > have ? need - have : 0;
}

// What an op needs at once, with its smallest scratch memory.
std::uint64_t need_of(const StepModel& model, Row op) {
  return model.table.working_set(op) - model.table.scratch(op) + model.least_scratch[op];
}

// Where most is alive that finds no place on any tier.
Row op_with_most_alive(const StepModel& model) {
  Row most = 0;
  for (Row op = 1; op < model.ops(); ++op) {
    if (model.table.alive(op) > model.table.alive(most)) most = op;
  }
  return most;
}

std::string op_words(const Problem& problem, Row op) {
  return fmt::format("op {} ({})", op, problem.trace.ops.name[op]);
}

// The least budget that fits, to a thousandth of the range, from asking for halves of it.
std::optional<Bytes> smallest_budget(const StepModel& model, const FitsBudget& fits,
                                     int most_tries) {
  std::uint64_t high = 0;
  for (Row op = 0; op < model.ops(); ++op) high = std::max(high, model.table.alive(op));
  std::uint64_t low = std::max({floor_of(model).bytes, model.budget(Tier::kDevice) + 1,
                                model.budget(Tier::kDevice) + short_on_all_tiers(model)});
  if (low > high) high = low;
  if (fits(Bytes{low})) return Bytes{low};
  if (!fits(Bytes{high})) return std::nullopt;
  for (int tries = 2; tries < most_tries && high - low > high / 1024 + 1; ++tries) {
    const std::uint64_t middle = low + (high - low) / 2;
    (fits(Bytes{middle}) ? high : low) = middle;
  }
  return Bytes{high};
}

void add_remedies(const Problem& problem, const StepModel& model, Infeasible& answer) {
  const Floor floor = floor_of(model);
  const Row op = floor.op;
  if (floor.bytes > model.budget(Tier::kDevice)) {
    const Bytes least = answer.smallest_budget.value_or(Bytes{floor.bytes});
    const std::string needs = least.count > floor.bytes
                                  ? fmt::format("{} alone needs {} at once", op_words(problem, op),
                                                to_string(Bytes{floor.bytes}))
                                  : fmt::format("{} needs as much at once", op_words(problem, op));
    answer.remedies.push_back(
        fmt::format("Raise the device budget to {} or more: {}.", to_string(least), needs));
    const std::size_t touched =
        model.table.last_touch_of_op(op) - model.table.first_touch_of_op(op);
    if (touched > 8) {
      answer.remedies.push_back(
          fmt::format("Split {}, which touches {} storages at once, into smaller groups.",
                      op_words(problem, op), touched));
    }
    if (model.table.scratch(op) > floor.bytes / 4) {
      answer.remedies.push_back(
          fmt::format("Choose a kernel with less than {} of workspace for {}.",
                      to_string(Bytes{model.table.scratch(op)}), op_words(problem, op)));
    }
    return;
  }
  const Bytes host = answer.short_by[index_of(Tier::kHost)];
  if (host.count > 0) {
    answer.remedies.push_back(fmt::format("Give {} more host memory.", to_string(host)));
    if (model.budget(Tier::kDisk) == 0) {
      answer.remedies.push_back(fmt::format("Add a disk tier of {} or more.", to_string(host)));
    }
  }
  if (answer.smallest_budget) {
    answer.remedies.push_back(
        fmt::format("Raise the device budget to {}.", to_string(*answer.smallest_budget)));
  }
}

}  // namespace

Floor floor_of(const StepModel& model) {
  Floor floor;
  std::uint64_t inputs = 0;
  for (Row s = 0; s < model.table.storages(); ++s) {
    if (model.table.creator(s) == kNoRow && model.table.predecessor(s) == kNoRow) {
      inputs += model.table.bytes(s);
    }
  }
  floor.bytes = inputs;
  for (Row op = 0; op < model.ops(); ++op) {
    const std::uint64_t need = need_of(model, op);
    if (need > floor.bytes) floor = {need, op};
  }
  return floor;
}

Floor floor_of_all_tiers(const StepModel& model) {
  const AccessTable& table = model.table;
  const Row ops = table.ops();
  std::vector<std::int64_t> change(ops + 1);
  const auto held = [&](Row storage, Row from, Row to) {
    if (from >= to) return;
    const auto bytes = static_cast<std::int64_t>(table.bytes(storage));
    change[from] += bytes;
    change[to] -= bytes;
  };
  for (Row row = 0; row < table.touches(); ++row) {
    const GapEnd end = end_of_gap(table, row);
    if (end.touch == kNoRow) continue;
    const Row storage = table.touch(row).storage;
    const Row again = model.replay_op[storage] == kNoRow ? 0 : model.chain_until[storage];
    const Row next = table.op_of(end.touch);
    held(storage, std::max(table.op_of(row) + 1, again), end.wraps ? ops : next);
    if (end.wraps) held(table.touch(end.touch).storage, 0, next);
  }
  Floor floor;
  std::int64_t between = 0;  // bytes of gaps
  for (Row op = 0; op < ops; ++op) {
    between += change[op];
    const std::uint64_t bytes = static_cast<std::uint64_t>(between) + need_of(model, op);
    if (bytes > floor.bytes) floor = {bytes, op};
  }
  return floor;
}

std::uint64_t short_on_all_tiers(const StepModel& model) {
  std::uint64_t left = floor_of_all_tiers(model).bytes;
  for (const Tier tier : kTiers) left = missing(left, model.budget(tier));
  return left;
}

Infeasible explain_shortage(const Problem& problem, const StepModel& model, const FitsBudget& fits,
                            int most_tries) {
  Infeasible answer;
  const Floor floor = floor_of(model);
  const std::uint64_t device = model.budget(Tier::kDevice);
  if (floor.bytes > device) {
    answer.op = OpIndex{floor.op};
    answer.short_by[index_of(Tier::kDevice)] = Bytes{floor.bytes - device};
  } else {
    const Row op = op_with_most_alive(model);
    answer.op = OpIndex{op};
    const std::uint64_t away = missing(model.table.alive(op), device);
    const std::uint64_t below_host = missing(away, model.budget(Tier::kHost));
    answer.short_by[index_of(Tier::kHost)] = Bytes{missing(below_host, model.budget(Tier::kDisk))};
    if (model.budget(Tier::kDisk) > 0) {
      answer.short_by[index_of(Tier::kDisk)] = answer.short_by[index_of(Tier::kHost)];
    }
  }
  answer.smallest_budget = smallest_budget(model, fits, most_tries);
  if (answer.smallest_budget && floor.bytes <= device) {
    answer.short_by[index_of(Tier::kDevice)] =
        saturating_sub(*answer.smallest_budget, Bytes{device});
  }
  add_remedies(problem, model, answer);
  return answer;
}

}  // namespace spillway::planning
