// SPDX-License-Identifier: Apache-2.0
// The planners of papers choose by the rules that docs/planners and docs/tensorflow-planners.md
// state: on random steps the actions are those of the rule as it reads, written down naively.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan_fixture.hpp"
#include "planner/planners.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;

// Activations, each made by one op, used by some later ones and freed by the last of these.
struct RandomStep {
  Trace trace;
  std::vector<TimeNs> start{0};                // of each op; and the end
  std::vector<std::vector<std::size_t>> uses;  // of each storage, by op: its maker, its readers
  std::vector<std::uint64_t> bytes;            // of each storage

  explicit RandomStep(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t least, std::uint64_t most) {
      return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
    };
    const std::size_t ops = draw(6, 20);
    std::vector<TraceOp> step(ops);
    for (std::size_t op = 0; op + 1 < ops; ++op) {
      const std::vector<std::size_t> readers = draw_readers(op, ops, draw);
      const StorageId storage = trace.add(TraceStorage{.bytes = Bytes{draw(1, 9) * 1000},
                                                       .role = StorageRole::kActivation,
                                                       .name = std::to_string(op)});
      bytes.push_back(trace.storages.bytes[to_value(storage)].count);
      step[op].creates.push_back(storage);
      for (const std::size_t reader : readers) step[reader].reads.push_back(storage);
      step[readers.back()].frees.push_back(storage);
      uses.push_back({op});
      uses.back().insert(uses.back().end(), readers.begin(), readers.end());
    }
    for (TraceOp& op : step) {
      op.duration_ns = static_cast<TimeNs>(draw(100, 900));
      start.push_back(start.back() + op.duration_ns);
      trace.add(op);
    }
  }

  [[nodiscard]] std::size_t ops() const { return start.size() - 1; }

  /// Of each op: what it uses, what waits then.
  [[nodiscard]] std::vector<std::uint64_t> alive() const {
    std::vector<std::uint64_t> alive(ops());
    for (std::size_t s = 0; s < uses.size(); ++s) {
      for (std::size_t op = uses[s].front(); op <= uses[s].back(); ++op) alive[op] += bytes[s];
    }
    return alive;
  }

  /// The most that one op uses.
  [[nodiscard]] std::uint64_t floor() const {
    std::vector<std::uint64_t> used(ops());
    for (std::size_t s = 0; s < uses.size(); ++s) {
      for (const std::size_t op : uses[s]) used[op] += bytes[s];
    }
    return *std::ranges::max_element(used);
  }

 private:
  template <typename Draw>
  static std::vector<std::size_t> draw_readers(std::size_t op, std::size_t ops, const Draw& draw) {
    std::vector<std::size_t> readers;
    for (std::uint64_t i = draw(1, 3); i-- > 0;) readers.push_back(draw(op + 1, ops - 1));
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
  }
};

// A storage leaves before an op and is called back before another.
struct Absence {
  std::size_t out = 0;
  std::size_t storage = 0;
  std::size_t in = 0;

  auto operator<=>(const Absence&) const = default;
};

std::vector<Absence> absences_of(const Plan& plan) {
  std::vector<Absence> found;
  for (const PlanAction& action : plan.actions) {
    const std::size_t storage = to_value(action.storage);
    if (action.kind == PlanActionKind::kEvict) {
      found.push_back({.out = to_value(action.at), .storage = storage, .in = 0});
    } else if (action.kind == PlanActionKind::kFetch) {
      const auto left = std::ranges::find_if(found, [&](const Absence& absence) {
        return absence.storage == storage && absence.in == 0;
      });
      EXPECT_NE(left, found.end()) << "fetched and not evicted";
      if (left != found.end()) left->in = to_value(action.at);
    }
  }
  std::ranges::sort(found);
  return found;
}

// Meng et al. 2017: the longest waits first, by the critical path, while too much is in memory;
// the swap-in is triggered `lead` copies before the use. Nothing if the step does not fit so.
std::optional<std::vector<Absence>> by_longest_wait(const RandomStep& step, std::uint64_t budget,
                                                    double copy_ns_per_byte, double lead) {
  struct Wait {
    TimeNs length = 0;
    std::size_t storage = 0;
    std::size_t before = 0;
    std::size_t after = 0;
  };
  std::vector<Wait> waits;
  for (std::size_t s = 0; s < step.uses.size(); ++s) {
    Wait longest;
    for (std::size_t i = 0; i + 1 < step.uses[s].size(); ++i) {
      const std::size_t before = step.uses[s][i];
      const std::size_t after = step.uses[s][i + 1];
      const TimeNs length = step.start[after] - step.start[before + 1];
      if (length > longest.length) longest = {length, s, before, after};
    }
    if (longest.length > 0) waits.push_back(longest);
  }
  std::ranges::stable_sort(waits, std::ranges::greater(), &Wait::length);
  std::vector<std::uint64_t> alive = step.alive();
  const auto is_short = [&](std::size_t op) { return alive[op] > budget; };
  std::vector<Absence> chosen;
  for (const Wait& wait : waits) {
    const double copy = copy_ns_per_byte * static_cast<double>(step.bytes[wait.storage]);
    const TimeNs trigger = step.start[wait.after] - static_cast<TimeNs>(lead * copy);
    std::size_t in = wait.after;
    while (in > wait.before + 1 && step.start[in] > trigger) --in;
    bool relieves = false;
    for (std::size_t op = wait.before + 1; op < in; ++op) relieves |= is_short(op);
    if (!relieves) continue;
    for (std::size_t op = wait.before + 1; op < in; ++op) alive[op] -= step.bytes[wait.storage];
    chosen.push_back({.out = wait.before + 1, .storage = wait.storage, .in = in});
  }
  for (std::size_t op = 0; op < step.ops(); ++op) {
    if (is_short(op)) return std::nullopt;
  }
  std::ranges::sort(chosen);
  return chosen;
}

class PaperRulesTest : public PlanFixture {
 protected:
  static Budgets budgets(std::uint64_t device) {
    Budgets all;
    all[Tier::kDevice] = Bytes{device};
    all[Tier::kHost] = kGiB;
    return all;
  }
  static Machine machine(double bytes_per_ns) {
    Machine machine = plain_machine();
    for (const LinkKind link : {LinkKind::kDeviceToHost, LinkKind::kHostToDevice}) {
      machine.links[index_of(link)] = Link{.bytes_per_second = bytes_per_ns * 1e9};
    }
    return machine;
  }
};

TEST_F(PaperRulesTest, SwapCriticalPathTakesTheLongestWaitsFirst) {
  std::size_t planned = 0;
  std::size_t led = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep step(seed);
    const std::uint64_t most = std::ranges::max(step.alive());
    const std::uint64_t device = std::midpoint(step.floor(), most);
    const double rate = seed % 2 == 0 ? 1e6 : 20;  // a copy takes no time, or as long as an op
    const Machine here = machine(rate);
    PlanningContext context = short_search();
    context.explain = false;
    const auto plan = make(swap_critical_path_planner(), {step.trace, here, budgets(device)},
                           Options(swap_critical_path_planner().options()), context);
    const std::array leads{1.0, 0.25, 0.0};
    const auto is_by_the_rule = [&](double lead) {
      const auto chosen = by_longest_wait(step, device, 1 / rate, lead);
      return chosen && plan && absences_of(plan->plan) == *chosen;
    };
    if (plan) {
      ++planned;
      EXPECT_TRUE(std::ranges::any_of(leads, is_by_the_rule));
      led += is_by_the_rule(1) ? 1U : 0U;
    } else {
      EXPECT_FALSE(by_longest_wait(step, device, 1 / rate, 0)) << "one fits";
    }
  }
  EXPECT_GT(planned, 200U);
  EXPECT_GT(led, planned / 2);
}

// TensorFlowMem (Wei et al. 2018): what is used again more than `distance` partitions later is away
// from the end of the one partition to the beginning of that which is `ahead` before the other.
std::vector<Absence> by_distance(const RandomStep& step,
                                 const std::vector<std::uint32_t>& partition,
                                 std::uint32_t distance, std::uint32_t ahead) {
  const auto begin = [&](std::uint32_t number) {
    return static_cast<std::size_t>(std::ranges::lower_bound(partition, number) -
                                    partition.begin());
  };
  std::vector<Absence> chosen;
  for (std::size_t s = 0; s < step.uses.size(); ++s) {
    for (std::size_t i = 0; i + 1 < step.uses[s].size(); ++i) {
      const std::uint32_t last = partition[step.uses[s][i]];
      const std::uint32_t next = partition[step.uses[s][i + 1]];
      if (next - last <= distance) continue;
      const std::size_t out = begin(last + 1);
      chosen.push_back(
          {.out = out, .storage = s, .in = std::max(out, begin(next - std::min(ahead, next)))});
    }
  }
  std::ranges::sort(chosen);
  return chosen;
}

TEST_F(PaperRulesTest, PartitionedSwapsWhatIsUsedAgainFarAway) {
  std::size_t away = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    const RandomStep step(seed);
    std::mt19937_64 random(seed);
    std::vector<std::uint32_t> partition(step.ops());
    for (std::size_t op = 1; op < partition.size(); ++op) {
      partition[op] = partition[op - 1] + static_cast<std::uint32_t>(random() % 2);
    }
    const auto distance = static_cast<std::uint32_t>(1 + random() % 3);
    const auto ahead = static_cast<std::uint32_t>(random() % 3);
    Options options(partitioned_planner().options());
    options.set("distance", std::int64_t{distance});
    options.set("ahead", std::int64_t{ahead});
    PlanningContext context = short_search();
    context.partitions = partition;
    const Machine here = machine(1e6);
    const auto plan =
        make(partitioned_planner(), {step.trace, here, budgets(std::ranges::max(step.alive()))},
             options, context);
    ASSERT_TRUE(plan);
    const std::vector<Absence> chosen = by_distance(step, partition, distance, ahead);
    EXPECT_EQ(absences_of(plan->plan), chosen);
    away += chosen.size();
  }
  EXPECT_GT(away, 400U);
}

// A chain: forward op i makes map i of map i-1, backward op i reads map i, the last first.
struct RandomChain {
  Trace trace;
  std::vector<std::uint64_t> bytes;  // of each map
  std::vector<bool> heavy;           // ten FLOP and more for each byte that the op touches
  std::vector<bool> again;           // its op can be run again

  explicit RandomChain(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](std::uint64_t least, std::uint64_t most) {
      return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
    };
    const std::size_t depth = draw(5, 12);
    std::vector<StorageId> maps;
    for (std::size_t i = 0; i < depth; ++i) {
      bytes.push_back(draw(1, 9) * 1000);
      heavy.push_back(draw(0, 1) == 1);
      again.push_back(draw(0, 3) != 0);
      maps.push_back(trace.add(TraceStorage{
          .bytes = Bytes{bytes[i]}, .role = StorageRole::kActivation, .name = std::to_string(i)}));
      TraceOp op{.duration_ns = static_cast<TimeNs>(draw(100, 900)), .recomputable = again[i]};
      const std::uint64_t touched = bytes[i] + (i == 0 ? 0 : bytes[i - 1]);
      op.flop = heavy[i] ? 11 * (touched + 1) : touched;
      op.creates = {maps[i]};
      if (i != 0) op.reads = {maps[i - 1]};
      trace.add(op);
    }
    for (std::size_t i = depth; i-- > 0;) {
      trace.add(TraceOp{.duration_ns = static_cast<TimeNs>(draw(100, 900)),
                        .reads = {maps[i]},
                        .frees = {maps[i]}});
    }
  }

  [[nodiscard]] std::size_t depth() const { return bytes.size(); }
  [[nodiscard]] std::uint64_t peak() const {
    return std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  }
  /// The most that two neighbours have.
  [[nodiscard]] std::uint64_t floor() const {
    std::uint64_t most = bytes[0];
    for (std::size_t i = 1; i < depth(); ++i) most = std::max(most, bytes[i - 1] + bytes[i]);
    return most;
  }
};

// Wang et al. 2018: outputs of cheap ops between heavy ones are made again and never copied; those
// of heavy ones are copied and never made again: with the cache where room is short, else always.
// What is cheap and cannot be made again counts as heavy.
TEST_F(PaperRulesTest, SuperNeuronsCopiesWhatIsDearAndMakesTheRestAgain) {
  std::size_t copied = 0;
  std::size_t remade = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    const RandomChain step(seed);
    const bool caches = seed % 2 == 0;
    const bool fits = seed % 4 < 2;
    Options options(superneurons_planner().options());
    options.set("tensor-cache", caches);
    const std::uint64_t device = fits ? step.peak() : std::midpoint(step.floor(), step.peak());
    const auto plan =
        make(superneurons_planner(), {step.trace, machine(1e6), budgets(device)}, options);
    if (!plan) continue;
    std::vector<bool> evicted(step.depth());
    for (const PlanAction& action : plan->plan.actions) {
      // A map has the number of the op that makes it.
      const bool runs_again = action.kind == PlanActionKind::kRecompute;
      const std::size_t map = runs_again ? to_value(action.op) : to_value(action.storage);
      ASSERT_LT(map, step.depth());
      const bool makes_again = !step.heavy[map] && step.again[map];
      if (action.kind == PlanActionKind::kEvict || action.kind == PlanActionKind::kFetch) {
        EXPECT_FALSE(makes_again) << map << " is copied";
        evicted[map] = true;
        ++copied;
      }
      if (action.kind == PlanActionKind::kDrop || runs_again) {
        EXPECT_TRUE(makes_again) << map << " is made again";
        ++remade;
      }
    }
    // The last map is read right after it was made.
    for (std::size_t map = 0; map + 2 < step.depth(); ++map) {
      const bool is_copied = step.heavy[map] || !step.again[map];
      if (is_copied && !caches) {
        EXPECT_TRUE(evicted[map]) << map;
      }
      if (caches && fits) {
        EXPECT_FALSE(evicted[map]) << map;
      }
    }
  }
  EXPECT_GT(copied, 400U);
  EXPECT_GT(remade, 400U);
}

}  // namespace
}  // namespace spillway::planning
