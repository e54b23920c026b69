// SPDX-License-Identifier: Apache-2.0
// The rules by which graphs are rewritten, as docs/tensorflow.md and docs/tensorflow-planners.md
// state them, on random graphs: plain_rules.hpp says what they come to, and the rewriting must have
// done that and nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph_builder.hpp"
#include "graph_order.hpp"
#include "ordering_edges.hpp"
#include "plain_order.hpp"
#include "plain_rules.hpp"
#include "rewrite.hpp"

namespace spillway::tf {
namespace {

using testing::all_before;
using testing::describe_op;
using testing::dressed_graph;
using testing::is_variable_read;
using testing::NodeSet;
using testing::Place;
using testing::plain_heavy_rows;
using testing::plain_partitions;
using testing::PlainOrder;
using testing::PlainRules;
using testing::Tensor;
using testing::Uses;
using testing::with_all_barriers;
using testing::with_serial_levels;

constexpr std::uint64_t kSeeds = 120;
constexpr std::uint64_t kTurns = 3;  // sets of options for each

/// What stands before the users in a rewritten graph.
class Found {
 public:
  Found(const Graph& before, const Graph& after) : after_(after) {
    for (NodeIndex i = 0; i < after.nodes.size(); ++i) index_[after.nodes[i].name] = i;
    for (NodeIndex i = 0; i < before.nodes.size(); ++i) {
      EXPECT_EQ(after.nodes[i].name, before.nodes[i].name);
      for (std::size_t k = 0; k < before.nodes[i].inputs.size(); ++k) {
        const std::string& now = after.nodes[i].inputs[k];
        if (now == before.nodes[i].inputs[k]) continue;
        cut_[tensor_of(before.nodes[i].inputs[k])][now].insert({i, k});
      }
    }
  }

  /// Of each tensor the uses that were cut off, by what they read in its place: a reader.
  [[nodiscard]] const std::map<Tensor, std::map<std::string, Uses>>& cut() const { return cut_; }

  [[nodiscard]] Tensor tensor_of(const std::string& input) const {
    const InputName name = parse_input(input);
    return {.node = index_.at(std::string(name.node)), .port = name.port};
  }

  [[nodiscard]] const Node& node(const std::string& name) const {
    return after_.nodes[index_.at(name)];
  }

  /// The nodes of the program that a node waits for over edges that only order, and over ticks.
  [[nodiscard]] std::set<NodeIndex> awaited(const std::string& name) const {
    std::set<NodeIndex> all;
    for (const std::string& text : node(name).inputs) {
      const InputName input = parse_input(text);
      if (!input.control) continue;
      const std::string from(input.node);
      if (from.starts_with(kPrefix)) {
        all.merge(awaited(from));
      } else {
        all.insert(index_.at(from));
      }
    }
    return all;
  }

 private:
  const Graph& after_;
  std::map<std::string, NodeIndex> index_;
  std::map<Tensor, std::map<std::string, Uses>> cut_;
};

/// The graph with the edges that its options ask for.
Graph ordered(const Graph& graph, const RewriteOptions& options) {
  Graph tied = options.serialise_levels ? with_serial_levels(graph) : graph;
  if (options.partition_nodes == 0) return tied;
  return with_all_barriers(tied, options.partition_nodes);
}

/// A graph, what the rules say of it, and what was made of it.
struct Rewriting {
  Rewriting(std::uint64_t seed, const RewriteOptions& asked)
      : options(asked),
        before(dressed_graph(seed)),
        result(rewrite_graph(before.serialize(), describe_op, asked)),
        after(result.rewritten ? Graph::parse(result.rewritten->graph) : before),
        found(before, after),
        order(ordered(before, asked)),
        rules(order, asked.pairs) {
    EXPECT_EQ(result.reason, result.rewritten ? "" : kNothingWaits);
  }

  [[nodiscard]] const Node& node(const Tensor& tensor) const { return before.nodes[tensor.node]; }
  [[nodiscard]] std::string describe(const Uses::value_type& use) const {
    const NodeIndex from = order.inputs(use.first)[use.second].from;
    return before.nodes[from].name + " (level " + std::to_string(order.level(from)) + ") by " +
           before.nodes[use.first].name + " (level " + std::to_string(order.level(use.first)) + ")";
  }

  RewriteOptions options;
  Graph before;
  RewriteResult result;
  Graph after;
  Found found;
  PlainOrder order;
  PlainRules rules;
};

RewriteOptions options_of(std::uint64_t seed, std::uint64_t turn, Trigger trigger) {
  RewriteOptions options;
  options.pairs.distance = static_cast<std::uint32_t>((seed + 4 * turn) % 9);
  options.pairs.group = static_cast<std::uint32_t>((seed + turn) % 4);
  options.pairs.ahead = 1 + static_cast<std::uint32_t>((seed + 2 * turn) % 5);
  options.trigger = trigger;
  options.first_hole = seed;
  options.first_clock = turn;
  options.serialise_levels = turn == 1;
  options.partition_nodes = turn == 2 ? 1 + seed % 9 : 0;
  return options;
}

/// Those of the last trigger stay for the next test: to make them takes most of the time, and to
/// keep all of them much memory.
const std::vector<std::unique_ptr<Rewriting>>& random_rewritings(Trigger trigger) {
  static std::map<Trigger, std::vector<std::unique_ptr<Rewriting>>> kept;
  if (!kept.contains(trigger)) {
    kept.clear();
    for (std::uint64_t i = 0; i < kSeeds * kTurns; ++i) {
      const std::uint64_t seed = i / kTurns;
      kept[trigger].push_back(
          std::make_unique<Rewriting>(seed, options_of(seed, i % kTurns, trigger)));
    }
  }
  return kept.at(trigger);
}

/// Ends with the first graph that is not as it should be.
template <typename Check>
void for_random_graphs(Trigger trigger, const Check& check) {
  const auto& all = random_rewritings(trigger);
  for (std::size_t i = 0; i < all.size() && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(i / kTurns) + ", turn " + std::to_string(i % kTurns));
    check(*all[i]);
  }
}

TEST(RewritePropertiesTest, LevelsAndContextsAreAsStated) {
  for_random_graphs(Trigger::kEdge, [](const Rewriting& made) {
    const GraphOrder order = order_graph(made.order.graph());
    std::map<Place, std::set<std::uint32_t>> numbers;
    std::set<std::uint32_t> all;
    for (NodeIndex i = 0; i < made.order.size(); ++i) {
      EXPECT_EQ(order.level[i], made.order.level(i)) << made.order.node(i).name;
      numbers[made.order.place(i)].insert(order.context[i]);
      all.insert(order.context[i]);
    }
    for (const auto& [place, of_place] : numbers) EXPECT_EQ(of_place.size(), 1U);
    EXPECT_EQ(all.size(), numbers.size());
  });
}

Uses all_cut(const Found& found) {
  Uses all;
  for (const auto& [tensor, readers] : found.cut()) {
    for (const auto& [reader, uses] : readers) all.insert(uses.begin(), uses.end());
  }
  return all;
}

TEST(RewritePropertiesTest, LateUsesOfWhatMayLeaveAreCutOffAndNoOthers) {
  std::size_t count = 0;
  for_random_graphs(Trigger::kEdge, [&count](const Rewriting& made) {
    Uses expected;
    for (const auto& [tensor, groups] : made.rules.groups()) {
      for (const Uses& group : groups) expected.insert(group.begin(), group.end());
    }
    const Uses cut = all_cut(made.found);
    for (const auto& use : expected) {
      EXPECT_TRUE(cut.contains(use)) << "stays: " << made.describe(use);
    }
    for (const auto& use : cut) {
      EXPECT_TRUE(expected.contains(use)) << "is cut off: " << made.describe(use);
    }
    count += cut.size();
  });
  EXPECT_GT(count, 2000U);
}

// A reader is a swap-in behind the swap-out, or says that a variable is used.
void check_reader(const Found& found, const std::string& reader, const Tensor& tensor,
                  bool variable) {
  const Node& node = found.node(reader);
  EXPECT_EQ(node.op, variable ? kUseOp : kSwapInOp);
  const std::string& from = node.inputs.at(0);
  EXPECT_EQ(found.tensor_of(variable ? from : found.node(from).inputs.at(0)), tensor);
}

TEST(RewritePropertiesTest, ATensorHasOneSwapOut) {
  std::size_t several = 0;  // with several swap-ins
  for_random_graphs(Trigger::kEdge, [&several](const Rewriting& made) {
    std::map<Tensor, std::size_t> swap_outs;
    for (const Node& node : made.after.nodes) {
      if (node.op == kSwapOutOp) ++swap_outs[made.found.tensor_of(node.inputs.at(0))];
    }
    for (const auto& [tensor, readers] : made.found.cut()) {
      const bool variable = is_variable_read(made.node(tensor));
      EXPECT_EQ(swap_outs[tensor], variable ? 0U : 1U) << made.node(tensor).name;
      for (const auto& [reader, uses] : readers) {
        check_reader(made.found, reader, tensor, variable);
      }
      several += !variable && readers.size() > 1 ? 1U : 0U;
    }
    for (const auto& [tensor, count] : swap_outs) {
      EXPECT_TRUE(made.found.cut().contains(tensor)) << made.node(tensor).name;
    }
  });
  EXPECT_GT(several, 500U);
}

TEST(RewritePropertiesTest, LateUsesShareASwapInByLevel) {
  std::size_t sharing = 0;
  for_random_graphs(Trigger::kEdge, [&sharing](const Rewriting& made) {
    std::size_t swap_ins = 0;
    for (const auto& [tensor, groups] : made.rules.groups()) {
      SCOPED_TRACE(made.node(tensor).name);
      ASSERT_TRUE(made.found.cut().contains(tensor));
      std::set<Uses> found;
      for (const auto& [reader, uses] : made.found.cut().at(tensor)) found.insert(uses);
      EXPECT_EQ(found, std::set<Uses>(groups.begin(), groups.end()));
      for (const Uses& uses : groups) sharing += uses.size() > 1 ? 1U : 0U;
      swap_ins += groups.size();
    }
    const auto is_reader = [](const Node& node) {
      return node.op == kSwapInOp || node.op == kUseOp;
    };
    EXPECT_EQ(std::ranges::count_if(made.after.nodes, is_reader), swap_ins);
  });
  EXPECT_GT(sharing, 500U);
}

// Exactly so many of the row, and none before one of a lower level.
void expect_first_of_row(const PlainOrder& order, const std::vector<NodeIndex>& row,
                         std::size_t count, const std::set<NodeIndex>& found) {
  EXPECT_EQ(found.size(), count);
  std::uint32_t highest = 0;
  for (const NodeIndex heavy : found) {
    EXPECT_EQ(std::ranges::count(row, heavy), 1) << order.node(heavy).name << " is awaited";
    highest = std::max(highest, order.level(heavy));
  }
  for (const NodeIndex heavy : row) {
    EXPECT_TRUE(order.level(heavy) >= highest || found.contains(heavy))
        << order.node(heavy).name << " is not awaited";
  }
}

// Returns how many readers wait for anything. With a clock only uses of variables do.
std::size_t check_awaited(const Rewriting& made) {
  std::size_t waiting = 0;
  for (const auto& [tensor, readers] : made.found.cut()) {
    const bool waits =
        made.options.trigger == Trigger::kEdge || is_variable_read(made.node(tensor));
    for (const auto& [reader, uses] : readers) {
      SCOPED_TRACE(reader);
      const std::set<NodeIndex> awaited = made.found.awaited(reader);
      const std::size_t count = waits ? made.rules.heavy_awaited(tensor.node, uses) : 0;
      expect_first_of_row(made.order, made.rules.heavy_of(uses), count, awaited);
      waiting += awaited.empty() ? 0U : 1U;
    }
  }
  return waiting;
}

TEST(RewritePropertiesTest, ASwapInFollowsTheHeavyOpsUpToTheOneAhead) {
  std::size_t waiting = 0;
  for_random_graphs(Trigger::kEdge,
                    [&waiting](const Rewriting& made) { waiting += check_awaited(made); });
  EXPECT_GT(waiting, 1000U);
}

// Partitions of one context, a barrier between each and the next, and the barriers in a row.
void expect_between(const std::vector<NodeSet>& before, const std::vector<NodeIndex>& barriers,
                    const std::vector<std::vector<NodeIndex>>& partitions) {
  ASSERT_EQ(barriers.size(), partitions.size() - 1);
  for (std::size_t k = 0; k < barriers.size(); ++k) {
    for (const NodeIndex node : partitions[k]) EXPECT_TRUE(before[barriers[k]].test(node));
    for (const NodeIndex node : partitions[k + 1]) EXPECT_TRUE(before[node].test(barriers[k]));
    EXPECT_TRUE(k == 0 || before[barriers[k]].test(barriers[k - 1]));
  }
}

TEST(RewritePropertiesTest, BarriersOfAContextAreAChainBetweenItsPartitions) {
  std::size_t count = 0;
  for_random_graphs(Trigger::kEdge, [&count](const Rewriting& made) {
    if (!made.result.rewritten || made.options.partition_nodes == 0) return;
    const PlainOrder order(made.after);
    const std::vector<NodeSet> before = all_before(order);
    std::map<Place, std::vector<NodeIndex>> barriers;
    for (NodeIndex i = 0; i < order.size(); ++i) {
      if (!order.node(i).name.starts_with("spillway/barrier")) continue;
      barriers[order.place(i)].push_back(i);
      ++count;
    }
    const auto size = made.options.partition_nodes;
    for (const auto& [place, partitions] : plain_partitions(PlainOrder(made.before), size)) {
      std::vector<NodeIndex>& chain = barriers[place];
      std::ranges::sort(chain, {}, [&before](NodeIndex i) { return before[i].count(); });
      expect_between(before, chain, partitions);
    }
  });
  EXPECT_GT(count, 1000U);
}

// It has no cycle, and is left as it is if it comes again. Returns whether it was rewritten at all.
bool check_rewritten(const Rewriting& made) {
  if (!made.result.rewritten) return false;
  EXPECT_NO_THROW(PlainOrder{made.after});
  const RewriteResult again =
      rewrite_graph(made.result.rewritten->graph, describe_op, made.options);
  EXPECT_FALSE(again.rewritten);
  EXPECT_EQ(again.reason, kHasPairs);
  return true;
}

TEST(RewritePropertiesTest, ARewrittenGraphHasNoCycleAndIsLeftAsItIs) {
  std::size_t count = 0;
  for_random_graphs(Trigger::kEdge,
                    [&count](const Rewriting& made) { count += check_rewritten(made) ? 1U : 0U; });
  EXPECT_GT(count, 300U);
}

TEST(RewritePropertiesTest, WithAClockUsesOfVariablesAloneFollowATick) {
  std::size_t waiting = 0;
  for_random_graphs(Trigger::kClock,
                    [&waiting](const Rewriting& made) { waiting += check_awaited(made); });
  EXPECT_GT(waiting, 50U);
}

// A clock's row is all heavy ops of one context, by level.
void check_row(const PlainOrder& order, const std::vector<std::string>& names) {
  std::vector<NodeIndex> row;
  row.reserve(names.size());
  for (const std::string& name : names) row.push_back(order.index_of(name));
  ASSERT_FALSE(row.empty());
  EXPECT_TRUE(std::ranges::is_sorted(row, {}, [&](NodeIndex i) { return order.level(i); }));
  std::vector<NodeIndex> all = plain_heavy_rows(order).at(order.place(row[0]));
  std::ranges::sort(all);
  std::ranges::sort(row);
  EXPECT_EQ(row, all);
}

std::size_t number(const Node& node, std::string_view attribute) {
  return static_cast<std::size_t>(int_of(*node.attribute(attribute)).value());
}

// Each of a clock's times has one tick, which follows the heavy ops up to there.
void check_ticks(const Rewriting& made, std::size_t clock) {
  const std::vector<std::string>& row = made.result.rewritten->clocks[clock];
  std::set<std::size_t> times;
  for (const Node& node : made.after.nodes) {
    if (node.op != kTickOp || number(node, "clock") != made.options.first_clock + clock) continue;
    const std::size_t time = number(node, "time");
    EXPECT_GT(time, 0U);
    EXPECT_TRUE(times.insert(time).second) << node.name;
    std::set<NodeIndex> first;
    for (std::size_t t = 0; t < time; ++t) first.insert(made.order.index_of(row.at(t)));
    EXPECT_EQ(made.found.awaited(node.name), first) << node.name;
  }
  EXPECT_EQ(times.size(), row.size());
}

TEST(RewritePropertiesTest, AClockCountsAllHeavyOpsOfItsContextByLevel) {
  std::size_t ticks = 0;
  for_random_graphs(Trigger::kClock, [&ticks](const Rewriting& made) {
    if (!made.result.rewritten) return;
    const auto& clocks = made.result.rewritten->clocks;
    std::size_t counted = 0;
    for (std::size_t clock = 0; clock < clocks.size(); ++clock) {
      check_ticks(made, clock);
      check_row(made.order, clocks[clock]);
      counted += clocks[clock].size();
    }
    EXPECT_EQ(std::ranges::count(made.after.nodes, kTickOp, &Node::op), counted);
    ticks += counted;
  });
  EXPECT_GT(ticks, 1000U);
}

// A swap-in has the times of its hole, and the clock of its context.
void check_times(const Rewriting& made, const PairName& pair, const HoleName& hole,
                 const Uses& uses) {
  const NodeIndex maker = made.order.index_of(pair.node);
  EXPECT_EQ(hole.latest, made.rules.heavy_at_most(maker, uses));
  EXPECT_EQ(hole.due, made.rules.heavy_awaited(maker, uses));
  std::set<std::string> users;
  for (const auto& use : uses) users.insert(made.before.nodes[use.first].name);
  EXPECT_EQ(std::set<std::string>(hole.users.begin(), hole.users.end()), users);
  const auto& use = *uses.begin();
  const Node& swap_in = made.found.node(made.after.nodes[use.first].inputs[use.second]);
  EXPECT_EQ(number(swap_in, "latest"), hole.latest);
  EXPECT_EQ(number(swap_in, "due"), hole.due);
  if (hole.latest == 0) return;
  EXPECT_EQ(number(swap_in, "clock"), pair.clock);
  const auto& row = made.result.rewritten->clocks.at(pair.clock - made.options.first_clock);
  EXPECT_EQ(made.order.place(made.order.index_of(row.at(0))), made.order.place(use.first));
}

TEST(RewritePropertiesTest, WithAClockASwapInIsDueByTheHeavyOpsBeforeItsFirstUser) {
  std::size_t timed = 0;
  for_random_graphs(Trigger::kClock, [&timed](const Rewriting& made) {
    if (!made.result.rewritten) return;
    const auto all_groups = made.rules.groups();
    for (const PairName& pair : made.result.rewritten->pairs) {
      SCOPED_TRACE(pair.tensor);
      const std::vector<Uses>& groups = all_groups.at(made.found.tensor_of(pair.tensor));
      ASSERT_EQ(pair.holes.size(), groups.size());
      for (std::size_t k = 0; k < groups.size(); ++k) {
        check_times(made, pair, pair.holes[k], groups[k]);
        timed += pair.holes[k].latest > 0 ? 1U : 0U;
      }
    }
  });
  EXPECT_GT(timed, 1000U);
}

TEST(RewritePropertiesTest, WithAClockARewrittenGraphHasNoCycleAndIsLeftAsItIs) {
  std::size_t count = 0;
  for_random_graphs(Trigger::kClock,
                    [&count](const Rewriting& made) { count += check_rewritten(made) ? 1U : 0U; });
  EXPECT_GT(count, 300U);
}

// The ways between the nodes of the program are those of the rules, no more and no fewer. Returns
// how many the graph did not have.
std::size_t expect_same_ways(const Graph& graph, const Graph& tied, const Graph& expected) {
  const std::vector<NodeSet> at_first = all_before(PlainOrder(graph));
  const std::vector<NodeSet> found = all_before(PlainOrder(tied));
  const std::vector<NodeSet> stated = all_before(PlainOrder(expected));
  std::size_t fresh = 0;
  for (NodeIndex v = 0; v < graph.nodes.size(); ++v) {
    for (NodeIndex u = 0; u < graph.nodes.size(); ++u) {
      if (found[v].test(u) && !at_first[v].test(u)) ++fresh;
      if (found[v].test(u) == stated[v].test(u)) continue;
      ADD_FAILURE() << tied.nodes[u].name << (found[v].test(u) ? " comes" : " does not come")
                    << " before " << tied.nodes[v].name;
    }
  }
  return fresh;
}

TEST(RewritePropertiesTest, PartitionsFollowEachOtherAndNothingElseIsOrdered) {
  std::size_t fresh = 0;
  for (std::uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = dressed_graph(seed);
    Graph tied = graph;
    put_barriers(tied, order_graph(graph), 1 + seed % 9);
    fresh += expect_same_ways(graph, tied, with_all_barriers(graph, 1 + seed % 9));
  }
  EXPECT_GT(fresh, 1000U);
}

TEST(RewritePropertiesTest, HeavyOpsOfALevelFollowEachOtherAndNothingElseIsOrdered) {
  std::size_t fresh = 0;
  for (std::uint64_t seed = 0; seed < kSeeds && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Graph graph = dressed_graph(seed);
    const GraphOrder order = order_graph(graph);
    Graph tied = graph;
    serialise_levels(tied, order, heavy_nodes(graph, order));
    fresh += expect_same_ways(graph, tied, with_serial_levels(graph));
  }
  EXPECT_GT(fresh, 100U);
}

}  // namespace
}  // namespace spillway::tf
