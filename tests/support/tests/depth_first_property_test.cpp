// SPDX-License-Identifier: Apache-2.0
// Random steps in depth-first order: the order is the one that a naive search finds, which looks at
// every pair of ops, and what is made of it is a trace like any other. ORDER_SEED=n repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <variant>
#include <vector>

#include "spillway/plan/validator.hpp"
#include "spillway/planning/analysis/depth_first.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/shrink.hpp"
#include "spillway/testing/small_steps.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::testing {
namespace {

using Storages = std::set<StorageId>;

Storages storages_of(std::size_t op, std::initializer_list<const StorageLists*> lists) {
  Storages all;
  for (const StorageLists* each : lists) {
    const auto row = (*each)[OpIndex{op}];
    all.insert(row.begin(), row.end());
  }
  return all;
}

bool meet(const Storages& a, const Storages& b) {
  return std::ranges::any_of(a, [&](StorageId id) { return b.contains(id); });
}

/// The uses that order two ops.
struct Uses {
  Storages touched, written;
  bool unseen = false;

  Uses(const Trace& trace, std::size_t op)
      : touched(storages_of(op, {&trace.ops.reads, &trace.ops.writes, &trace.ops.creates})),
        written(storages_of(op, {&trace.ops.writes, &trace.ops.creates})),
        unseen(trace.ops.recomputable[op] == 0 &&
               written == storages_of(op, {&trace.ops.creates})) {}

  [[nodiscard]] bool comes_before(const Uses& later) const {
    return meet(written, later.touched) || meet(touched, later.written) || (unseen && later.unseen);
  }
};

/// Of the ops whose turn may come, the one that was made ready last, then the first of the program.
std::vector<OpIndex> naive_order(const std::vector<Uses>& ops) {
  std::vector<OpIndex> order;
  std::vector<bool> ran(ops.size());
  std::vector<std::optional<std::size_t>> ready(ops.size());  // how many had run by then
  while (order.size() < ops.size()) {
    std::optional<std::size_t> chosen;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      if (ran[op]) continue;
      bool waits = false;
      for (std::size_t i = 0; i < op; ++i)
        waits = waits || (!ran[i] && ops[i].comes_before(ops[op]));
      if (waits) continue;
      if (!ready[op]) ready[op] = order.size();
      if (!chosen || *ready[op] > *ready[*chosen]) chosen = op;
    }
    ran[*chosen] = true;
    order.push_back(OpIndex{*chosen});
  }
  return order;
}

void expect_freed_at_last_touch(const Trace& trace, const Trace& made) {
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    const StorageId id{i};
    const auto has = [&](const StorageLists& lists, std::size_t op) {
      return std::ranges::find(lists[OpIndex{op}], id) != lists[OpIndex{op}].end();
    };
    std::optional<std::size_t> last;
    std::optional<std::size_t> freed;
    for (std::size_t op = 0; op < made.ops.size(); ++op) {
      if (has(made.ops.reads, op) || has(made.ops.writes, op) || has(made.ops.creates, op))
        last = op;
      if (has(made.ops.frees, op)) freed = op;
    }
    const bool was_freed =
        std::ranges::find(trace.ops.frees.items, id) != trace.ops.frees.items.end();
    ASSERT_EQ(freed.has_value(), was_freed) << i;
    if (was_freed && last) {
      ASSERT_EQ(*freed, *last) << i;
    }
  }
}

/// A plan by `partitioned` for the least budget that it has one for; whether it has one at all.
bool expect_plan(const Trace& trace) {
  const Machine machine = plain_machine();
  Budgets budgets{{Bytes{1}, kGiB, kGiB}};
  const auto& planner = planning::planner_named("partitioned");
  const auto refused = planner.plan({trace, machine, budgets});
  const auto* reason = std::get_if<planning::Infeasible>(&refused);
  if (reason == nullptr || !reason->smallest_budget) return false;
  budgets[Tier::kDevice] = *reason->smallest_budget;
  const auto outcome = planner.plan({trace, machine, budgets});
  const Plan* plan = std::get_if<Plan>(&outcome);
  EXPECT_NE(plan, nullptr);
  if (plan == nullptr) return false;
  const auto problem = validate(*plan, trace, budgets);
  EXPECT_FALSE(problem) << problem->text;
  return true;
}

/// A random step of which more ops may move than the generator's: few random numbers are drawn.
Trace loose_step(std::mt19937& random) {
  Trace trace = random_step(random, 5 + random() % 40);
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const bool in_place =
        trace.ops.creates[OpIndex{op}].size() < trace.ops.writes[OpIndex{op}].size();
    if (!in_place && random() % 4 != 0) trace.ops.recomputable[op] = 1;
  }
  return trace;
}

TEST(DepthFirstPropertyTest, RandomStepsKeepAllThatTheirOpsDependOn) {
  const auto stated = stated_number("ORDER_SEED");
  const std::uint32_t first = stated.value_or(std::random_device{}());
  std::cout << "ORDER_SEED=" << first << "\n";
  const std::uint32_t rounds = stated ? 1 : 300;
  std::size_t moved = 0;
  std::size_t planned = 0;
  for (std::uint32_t round = 0; round < rounds && !::testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE("ORDER_SEED=" + std::to_string(first + round));
    std::mt19937 random(first + round);
    const Trace trace = loose_step(random);
    std::vector<Uses> uses;
    for (std::size_t op = 0; op < trace.ops.size(); ++op) uses.emplace_back(trace, op);
    const std::vector<OpIndex> order = planning::depth_first_order(trace);
    ASSERT_EQ(order, naive_order(uses));
    const Trace made = planning::reordered(trace, order);
    ASSERT_EQ(validate(made), std::nullopt);
    expect_freed_at_last_touch(trace, made);
    EXPECT_EQ(made.storages, trace.storages);
    EXPECT_EQ(parse_trace(format_trace(made), "the step"), made);
    if (!std::ranges::is_sorted(order)) ++moved;
    if (round % 10 == 0 && expect_plan(made)) ++planned;
  }
  if (stated) return;
  EXPECT_GE(moved, rounds / 3) << "steps that stay as they are show little";
  EXPECT_GE(planned, rounds / 20) << "of a tenth of the steps";
}

}  // namespace
}  // namespace spillway::testing
