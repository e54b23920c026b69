// SPDX-License-Identifier: Apache-2.0
// A step that is recorded op by op and the same step read off a graph lead to the same actions.
#include "spillway/planning/plan_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "spillway/planning/registry.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::testing {
namespace {

using planning::Infeasible;
using planning::PlannerSource;
using planning::PlanningContext;
using planning::StepActions;

constexpr TimeNs kDuration = 1'000;
constexpr Bytes kBytes{40'000};

/// A node of a graph: it reads values and makes one; those that only exist are parameters.
struct Node {
  std::string name;
  std::vector<std::string> reads;
  std::string makes;
};

// Layer i makes value i + 1 of value i and weight i; backward, gradient i comes of gradient i + 1,
// value i + 1 and weight i. In topological order.
std::vector<Node> network(int layers) {
  std::vector<Node> nodes{{"input", {"w"}, "x0"}};
  const auto text = [](const char* letter, int number) { return letter + std::to_string(number); };
  for (int i = 0; i < layers; ++i) {
    nodes.push_back({"forward", {text("x", i), text("w", i)}, text("x", i + 1)});
  }
  nodes.push_back({"loss", {text("x", layers)}, text("g", layers)});
  for (int i = layers; i-- > 0;) {
    nodes.push_back({"backward", {text("g", i + 1), text("x", i + 1), text("w", i)}, text("g", i)});
  }
  return nodes;
}

/// By node: the values that no later node reads.
std::vector<std::vector<std::string>> last_uses(const std::vector<Node>& nodes) {
  std::map<std::string, std::size_t> last;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    last[nodes[i].makes] = i;
    for (const std::string& value : nodes[i].reads) {
      if (value[0] != 'w') last[value] = i;
    }
  }
  std::vector<std::vector<std::string>> rows(nodes.size());
  for (const auto& [value, node] : last) rows[node].push_back(value);
  return rows;
}

/// As an adapter does that has a graph: values are numbered as the nodes come to them.
Trace read_off(const std::vector<Node>& nodes) {
  Trace trace;
  std::map<std::string, StorageId> ids;
  const auto id_of = [&](const std::string& value) {
    const auto known = ids.find(value);
    if (known != ids.end()) return known->second;
    const bool weight = value[0] == 'w';
    return ids[value] = trace.add(
               TraceStorage{.bytes = kBytes,
                            .role = weight ? StorageRole::kParameter : StorageRole::kActivation,
                            .persistent = weight});
  };
  const auto frees = last_uses(nodes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    TraceOp op{.name = nodes[i].name, .duration_ns = kDuration};
    for (const std::string& value : nodes[i].reads) op.reads.push_back(id_of(value));
    op.creates = op.writes = {id_of(nodes[i].makes)};
    for (const std::string& value : frees[i]) op.frees.push_back(id_of(value));
    std::ranges::sort(op.frees);
    trace.add(op);
  }
  return trace;
}

/// As the engine does while a program runs.
Trace recorded(const std::vector<Node>& nodes) {
  runtime::TraceRecorder recorder;
  std::map<std::string, StorageId> ids;
  const auto id_of = [&](const std::string& value) {
    return ids.try_emplace(value, StorageId{100 + ids.size()}).first->second;
  };
  const auto frees = last_uses(nodes);
  TimeNs now = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    recorder.begin_op(nodes[i].name.c_str(), 0, now);
    for (const std::string& value : nodes[i].reads) {
      if (value[0] == 'w') recorder.describe(id_of(value), StorageRole::kParameter, value);
      recorder.use(id_of(value), kBytes, false, nullptr);
    }
    recorder.allocated(id_of(nodes[i].makes), kBytes);
    recorder.made(id_of(nodes[i].makes), kBytes, nullptr, false);
    recorder.end_op(now += kDuration, kBytes);
    for (const std::string& value : frees[i]) recorder.freed(id_of(value));
  }
  return recorder.trace().value();
}

PlanningContext counted_looks() {
  PlanningContext context;
  context.now = [looks = TimeNs{0}]() mutable { return looks++; };
  context.time_limit_ns = 150;
  return context;
}

TEST(PlanSourceTest, ARecordedStepAndAGraphLeadToTheSameActions) {
  const std::vector<Node> nodes = network(8);
  const Trace eager = recorded(nodes);
  const Trace graph = read_off(nodes);
  ASSERT_EQ(validate(eager), std::nullopt);
  ASSERT_EQ(validate(graph), std::nullopt);
  ASSERT_EQ(structure_hash(eager), structure_hash(graph));
  const Machine machine = plain_machine();
  const Budgets budgets{{Bytes{peak_bytes(graph).count * 6 / 10}, kGiB, Bytes{0}}};
  int compared = 0;
  for (const planning::Planner* planner : planning::planners()) {
    const auto source = [&] {
      return PlannerSource(*planner, planning::Options(planner->options()), machine, budgets,
                           counted_looks());
    };
    const auto of_eager = source().actions_for(eager);
    const auto of_graph = source().actions_for(graph);
    ASSERT_EQ(of_eager.index(), of_graph.index()) << planner->name();
    const auto* mine = std::get_if<StepActions>(&of_eager);
    if (mine == nullptr) continue;
    const auto& theirs = std::get<StepActions>(of_graph);
    EXPECT_EQ(mine->plan().actions, theirs.plan().actions) << planner->name();
    EXPECT_EQ(mine->plan().places, theirs.plan().places) << planner->name();
    EXPECT_FALSE(mine->plan().actions.empty()) << planner->name();
    ++compared;
  }
  EXPECT_GE(compared, 4);
}

TEST(PlanSourceTest, ActionsAreFoundByThePositionOfTheirOp) {
  Plan plan;
  plan.actions = {PlanAction::fetch(OpIndex{1}, StorageId{4}),
                  PlanAction::forget(OpIndex{1}, StorageId{4}),
                  PlanAction::evict(OpIndex{3}, StorageId{5}, Tier::kHost)};
  const StepActions actions(plan);
  std::vector<PlanAction> all;
  for (std::size_t op = 0; op <= 6; ++op) {
    const auto row = actions.before(OpIndex{op});
    EXPECT_EQ(row.size(), op == 1 ? 2U : op == 3 ? 1U : 0U) << op;
    all.insert(all.end(), row.begin(), row.end());
  }
  EXPECT_EQ(all, plan.actions);
  EXPECT_TRUE(StepActions(Plan{}).before(OpIndex{0}).empty());
}

TEST(PlanSourceTest, WhereNoPlanFitsTheReasonComesOut) {
  const Trace graph = read_off(network(3));
  const Machine machine = plain_machine();
  const planning::Planner& lru = planning::planner_named("lru");
  const PlannerSource source(lru, planning::Options(lru.options()), machine,
                             {{kBytes, kGiB, Bytes{0}}});
  const auto outcome = source.actions_for(graph);
  ASSERT_TRUE(std::holds_alternative<Infeasible>(outcome));
  EXPECT_FALSE(std::get<Infeasible>(outcome).remedies.empty());
}

}  // namespace
}  // namespace spillway::testing
