// SPDX-License-Identifier: Apache-2.0
#include "swap_table.hpp"

#include <gmock/gmock.h>

#include <random>
#include <utility>
#include <vector>

namespace spillway::tf {
namespace {

// A step in which each pair's tensor is made, and used after all were made. Live bytes are those of
// the tensors that stayed, above what is always there.
class Training {
 public:
  Training(Bytes budget, Bytes beside, std::vector<Bytes> tensors, bool first_in_loop = false)
      : always(beside),
        sizes(std::move(tensors)),
        table({.budget = budget, .smallest = Bytes{10}},
              [this] { return std::exchange(peak, always); }),
        first(table.add_holes(loops(sizes.size(), first_in_loop))) {}

  static std::vector<bool> loops(std::size_t count, bool first_in_loop) {
    std::vector<bool> in_loop(count, false);
    in_loop[0] = first_in_loop;
    return in_loop;
  }

  void step(std::uint64_t turns_of_first = 1) {
    Bytes live = always;
    std::vector<bool> copied;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::uint64_t turn = 0; turn < (i == 0 ? turns_of_first : 1); ++turn) {
        const bool copies = table.copies(first + i, sizes[i]);
        copied.push_back(copies);
        copies ? table.stored(first + i, sizes[i]) : void(live += sizes[i]);
      }
    }
    most = std::max(most, live);
    peak = std::max(peak, live);
    last_copied = copied;
    std::size_t made = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::uint64_t turn = 0; turn < (i == 0 ? turns_of_first : 1); ++turn) {
        if (copied[made++]) table.dropped(first + i, sizes[i]);
      }
    }
  }

  Bytes always;
  std::vector<Bytes> sizes;
  Bytes peak{};
  Bytes most{};
  std::vector<bool> last_copied;
  SwapTable table;
  std::uint64_t first;
};

TEST(SwapTableTest, EverythingCopiesFirstAndWhatFitsPassesThen) {
  Training training(Bytes{1000}, Bytes{400}, {Bytes{300}, Bytes{100}, Bytes{200}});
  training.step();
  EXPECT_EQ(training.last_copied, (std::vector{true, true, true}));
  for (int i = 0; i < 20; ++i) training.step();
  // 400 + 100 + 200 is 700; with the 300 it would be 1000, more than 900.
  EXPECT_EQ(training.last_copied, (std::vector{true, false, false}));
  EXPECT_EQ(training.table.state().passing, 2U);
  EXPECT_EQ(training.table.state().used, 3U);
}

TEST(SwapTableTest, ATensorBelowTheSmallestSizePasses) {
  Training training(Bytes{1000}, Bytes{0}, {Bytes{9}, Bytes{10}});
  training.step();
  EXPECT_EQ(training.last_copied, (std::vector{false, true}));
}

// A pair in a loop runs five times a step, and has five tensors in the store.
TEST(SwapTableTest, APairInALoopCountsWithAllThatItKeeps) {
  Training training(Bytes{1000}, Bytes{500}, {Bytes{100}, Bytes{350}}, true);
  for (int i = 0; i < 20; ++i) training.step(5);
  // One of 100 would fit beside 500 and 350, five do not: 350 first, then 500 more are too many.
  EXPECT_EQ(training.last_copied, (std::vector{true, true, true, true, true, false}));
  EXPECT_LE(training.most, Bytes{900});
}

TEST(SwapTableTest, RandomProgramsStayBelowTheBudget) {
  std::mt19937_64 random(11);
  std::uint64_t passing = 0;
  for (int program = 0; program < 300; ++program) {
    std::vector<Bytes> sizes(1 + random() % 20);
    for (Bytes& size : sizes) size = {10 + random() % 200};
    const std::uint64_t turns = 1 + random() % 4;
    Training training(Bytes{1000}, Bytes{random() % 800}, sizes, turns > 1);
    for (int i = 0; i < 30; ++i) training.step(turns);
    EXPECT_LE(training.most, Bytes{900}) << "program " << program;
    passing += training.table.state().passing;
  }
  EXPECT_GT(passing, 300U);
}

TEST(SwapTableTest, AFailedAllocationHasEverythingCopiedForGood) {
  Training training(Bytes{1000}, Bytes{0}, {Bytes{100}, Bytes{100}});
  for (int i = 0; i < 20; ++i) training.step();
  ASSERT_EQ(training.table.state().passing, 2U);
  training.table.give_up();
  for (int i = 0; i < 20; ++i) training.step();
  EXPECT_EQ(training.last_copied, (std::vector{true, true}));
}

TEST(SwapTableTest, APairWhoseTensorHadToLeaveCopiesForGoodAndOthersPassOn) {
  Training training(Bytes{1000}, Bytes{0}, {Bytes{100}, Bytes{200}});
  for (int i = 0; i < 20; ++i) training.step();
  ASSERT_EQ(training.last_copied, (std::vector{false, false}));
  training.table.had_to_leave(training.first + 1, Bytes{100});
  for (int i = 0; i < 20; ++i) training.step();
  EXPECT_EQ(training.last_copied, (std::vector{false, true}));
  EXPECT_FALSE(training.table.state().gave_up);
}

TEST(SwapTableTest, ASmallTensorLeavesOnceItHadToAndOthersOfItsSize) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{100}, .least = Bytes{10}},
                  [] { return Bytes{}; });
  const std::uint64_t first = table.add_holes({false, false}, true);
  EXPECT_TRUE(table.copies(first, Bytes{100}));
  EXPECT_FALSE(table.copies(first + 1, Bytes{40}));
  EXPECT_TRUE(table.may_leave(Bytes{10}));
  EXPECT_FALSE(table.may_leave(Bytes{9}));
  table.had_to_leave(first + 1, Bytes{40});
  EXPECT_EQ(table.late_leaves(first), 1U) << "a plan was made without it";
  EXPECT_TRUE(table.copies(first + 1, Bytes{40}));
  EXPECT_FALSE(table.copies(first + 1, Bytes{39}));
  SwapTable hard({.budget = Bytes{1000}, .smallest = Bytes{100}}, [] { return Bytes{}; });
  EXPECT_FALSE(hard.may_leave(Bytes{99}));
}

// The first graph begins to be measured and never runs again.
TEST(SwapTableTest, AGraphThatStoppedDoesNotHoldUpOthers) {
  Bytes peak{};
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{1}}, [&peak] { return peak; });
  const std::uint64_t one = table.add_holes({false});
  const std::uint64_t two = table.add_holes({false});
  const auto step = [&table](std::uint64_t pair) {
    if (table.copies(pair, Bytes{100})) {
      table.stored(pair, Bytes{100});
      table.dropped(pair, Bytes{100});
    }
  };
  for (int i = 0; i < 3; ++i) step(one);
  for (int i = 0; i < 30; ++i) step(two);
  EXPECT_FALSE(table.copies(two, Bytes{100}));
  EXPECT_TRUE(table.copies(one, Bytes{100}));
}

using Runs = std::vector<std::pair<std::size_t, std::int64_t>>;

TEST(SwapTableTest, AStepBeginsARunWhicheverBranchItTakes) {
  Runs runs;
  SwapTable table(
      {.budget = Bytes{1000}, .smallest = Bytes{1}}, [] { return Bytes{}; },
      [&runs](std::size_t graph, std::int64_t step) { runs.emplace_back(graph, step); });
  const std::uint64_t first = table.add_holes({true, false, false, false, false}, true);
  table.copies(first, Bytes{10}, 70);  // in a loop, whose turns say nothing
  EXPECT_EQ(runs, Runs{});
  // Of two holes in each branch the second may come first.
  for (const std::uint64_t hole : {2U, 1U}) table.copies(first + hole, Bytes{10}, 70);
  for (const std::uint64_t hole : {3U, 4U}) table.copies(first + hole, Bytes{10}, 71);
  EXPECT_EQ(runs, (Runs{{0, 70}, {0, 71}}));
  // Steps beside each other, and a function that one step calls twice.
  for (const std::int64_t step : {72, 73, 72, 73}) table.copies(first + 1, Bytes{10}, step);
  table.copies(first + 2, Bytes{10}, 72);
  EXPECT_EQ(runs, (Runs{{0, 70}, {0, 71}, {0, 72}, {0, 73}, {0, 72}, {0, 73}}));
}

TEST(SwapTableTest, WhereAllIsInLoopsEachTurnOfTheFirstIsTold) {
  Runs runs;
  SwapTable table(
      {.budget = Bytes{1000}, .smallest = Bytes{1}}, [] { return Bytes{}; },
      [&runs](std::size_t graph, std::int64_t step) { runs.emplace_back(graph, step); });
  const std::uint64_t first = table.add_holes({true, true});
  for (const std::uint64_t hole : {1U, 0U, 1U, 0U}) table.copies(first + hole, Bytes{10}, 70);
  EXPECT_EQ(runs, (Runs{{0, 70}, {0, 70}}));
}

TEST(SwapTableTest, APlanDecidesWhereOneIsTo) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{1}}, [] { return Bytes{}; });
  const std::uint64_t first = table.add_holes({false, false, false}, true);
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(table.copies(first, Bytes{10})) << "nothing is measured";
  EXPECT_EQ(table.decide_due(first), std::nullopt);
  const std::vector<HoleDecision> plan{{.hole = first, .leaves = false, .due = 7},
                                       {.hole = first + 1, .leaves = true, .due = 8}};
  table.follow(plan);
  EXPECT_FALSE(table.copies(first, Bytes{10}));
  EXPECT_TRUE(table.copies(first + 1, Bytes{10}));
  EXPECT_TRUE(table.copies(first + 2, Bytes{10})) << "of which the plan says nothing";
  EXPECT_EQ(table.decide_due(first), 7U);
  table.had_to_leave(first, Bytes{100});
  EXPECT_TRUE(table.copies(first, Bytes{10}));
  const std::uint64_t other = table.add_holes({false}, true);
  EXPECT_EQ(table.late_leaves(first + 2), 1U);
  EXPECT_EQ(table.late_leaves(other), 0U);
  EXPECT_EQ(table.state().late_leaves, 1U);
  table.follow(plan);
  EXPECT_FALSE(table.copies(first, Bytes{10}));
  table.give_up();
  table.follow(plan);
  EXPECT_TRUE(table.copies(first, Bytes{10})) << "for good";
  EXPECT_EQ(table.decide_due(first), std::nullopt);
}

// Plans know nothing of holes in loops, which the table measures beside them.
TEST(SwapTableTest, InAPlannedGraphTheTableDecidesInLoops) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{10}}, [] { return Bytes{400}; });
  const std::uint64_t first = table.add_holes({true, false, false}, true);
  const auto step = [&] {
    std::vector<bool> copied;
    for (std::uint64_t hole = first; hole < first + 3; ++hole) {
      copied.push_back(table.copies(hole, Bytes{100}));
      if (copied.back()) table.stored(hole, Bytes{100});
    }
    for (std::uint64_t hole = first; hole < first + 3; ++hole) {
      if (copied[hole - first]) table.dropped(hole, Bytes{100});
    }
    return copied;
  };
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(step(), (std::vector{false, true, true})) << "until there is a plan";
  table.follow(std::vector<HoleDecision>{{.hole = first + 1, .leaves = true},
                                         {.hole = first + 2, .leaves = false}});
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(step(), (std::vector{false, true, false}));
}

TEST(SwapTableTest, APlanThatComesLaterDecidesAgain) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{10}}, [] { return Bytes{400}; });
  const std::uint64_t first = table.add_holes({false, false}, true);
  table.measure_instead(first);
  table.follow(std::vector<HoleDecision>{{.hole = first, .leaves = true},
                                         {.hole = first + 1, .leaves = true}});
  for (int i = 0; i < 20; ++i) {
    for (const std::uint64_t hole : {first, first + 1}) {
      EXPECT_TRUE(table.copies(hole, Bytes{100}));
      table.stored(hole, Bytes{100});
      table.dropped(hole, Bytes{100});
    }
  }
}

TEST(SwapTableTest, AGraphWithoutAPlanIsMeasuredInstead) {
  Training training(Bytes{1000}, Bytes{0}, {Bytes{100}, Bytes{200}});
  SwapTable& table = training.table;
  const std::uint64_t planned = table.add_holes({false}, true);
  for (int i = 0; i < 30; ++i) table.copies(planned, Bytes{100});
  table.stored(planned, Bytes{100});
  table.dropped(planned, Bytes{100});
  EXPECT_TRUE(table.copies(planned, Bytes{100}));
  table.measure_instead(planned);
  for (int i = 0; i < 30; ++i) table.copies(planned, Bytes{100});
  EXPECT_FALSE(table.copies(planned, Bytes{100}));
}

TEST(SwapTableTest, OnlyAPlanHasATensorComputedAgainUntilAnAllocationFails) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{10}}, [] { return Bytes{}; });
  const std::uint64_t first = table.add_holes({false, false}, true);
  EXPECT_FALSE(table.recomputes(first, Bytes{100}));
  table.follow(std::vector<HoleDecision>{{.hole = first, .recomputed = true},
                                         {.hole = first + 1, .leaves = true}});
  EXPECT_TRUE(table.recomputes(first, Bytes{100}));
  EXPECT_FALSE(table.copies(first, Bytes{100}));
  EXPECT_FALSE(table.recomputes(first, Bytes{9})) << "one so small is no token";
  EXPECT_FALSE(table.recomputes(first + 1, Bytes{100}));
  table.follow(std::vector<HoleDecision>{{.hole = first}});
  EXPECT_FALSE(table.recomputes(first, Bytes{100}));
  table.follow(std::vector<HoleDecision>{{.hole = first, .recomputed = true}});
  table.give_up();
  EXPECT_FALSE(table.recomputes(first, Bytes{100}));
}

TEST(SwapTableTest, WhereAllCopiesAlwaysEveryOtherTensorIsComputedAgain) {
  SwapTable table({.budget = Bytes{1000}, .smallest = Bytes{1}, .always_copy = true},
                  [] { return Bytes{}; });
  const std::uint64_t first = table.add_holes({false, false});
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(table.recomputes(first, Bytes{100}), step % 2 == 0);
  }
  EXPECT_TRUE(table.recomputes(first + 1, Bytes{100}));
  table.recomputed(3, Bytes{100});
  table.recomputed(2, Bytes{50});
  EXPECT_EQ(table.state().recomputed_ops, 5U);
  EXPECT_EQ(table.state().recomputed, Bytes{150});
}

TEST(SwapTableTest, WhereEverythingCopiesEveryOtherSwapInIsDueAtOnce) {
  SwapTable table({.budget = kMiB, .smallest = Bytes{1}, .always_copy = true},
                  [] { return Bytes{}; });
  table.add_holes({false, false});
  EXPECT_EQ(table.decide_due(0), 0U);
  EXPECT_EQ(table.decide_due(1), std::nullopt) << "not all at the same time";
  EXPECT_EQ(table.decide_due(0), std::nullopt);
  EXPECT_EQ(table.decide_due(0), 0U);
  EXPECT_EQ(table.decide_due(1), 0U);
}

}  // namespace
}  // namespace spillway::tf
