// SPDX-License-Identifier: Apache-2.0
#include "variables.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../../../runtime/tests/resident_pages.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::tf {
namespace {

using ::testing::HasSubstr;

class VariablesTest : public ::testing::Test {
 public:
  ~VariablesTest() override { arm_faults(""); }

 protected:
  VariablesTest() {
    memory_.set_victims(
        [this](Bytes bytes, Victims victims) { variables_.make_room(bytes, victims); });
  }
  std::shared_ptr<VariableMemory> filled(Bytes bytes, int value) {
    std::shared_ptr<VariableMemory> variable = variables_.make(bytes);
    EXPECT_EQ(variables_.use(*variable), "");
    std::memset(variable->data(), value, bytes.count);
    return variable;
  }
  static bool holds(const VariableMemory& variable, int value) {
    return std::all_of(variable.data(), variable.data() + variable.bytes().count,
                       [value](std::byte byte) { return byte == static_cast<std::byte>(value); });
  }

  static Bytes resident(const VariableMemory& variable) {
    const auto begin = reinterpret_cast<std::uintptr_t>(variable.data());
    return runtime::resident_bytes({begin, begin + variable.bytes().count});
  }

  BudgetedMemory memory_{kMiB * 8, runtime::Poison::kNo};
  runtime::TieredStore store_{
      {.host_budget = Bytes{},
       .spool = {.directory = ::testing::TempDir(), .budget = kMiB * 64, .warn = {}}},
      std::make_unique<runtime::TransferPool>(2)};
  std::string stays_;
  Variables variables_{{.in_memory = kMiB * 2, .smallest = Bytes{100}},
                       memory_,
                       store_,
                       [this](const std::string& reason) { stays_ = reason; }};
};

TEST_F(VariablesTest, WhatIsWrittenIsThereWhereverItLies) {
  const auto variable = filled(kMiB * 3 + Bytes{5}, 1);
  const std::vector<std::byte> second(variable->bytes().count, std::byte{2});
  EXPECT_EQ(variables_.write(*variable, second.data()), "");
  EXPECT_EQ(variables_.usage().counted, variable->bytes());
  EXPECT_TRUE(holds(*variable, 2));
  variables_.make_room(kMiB * 3, Victims::kIdle);
  const auto blocker = memory_.allocate(kMiB * 6, 64);
  const std::vector<std::byte> third(variable->bytes().count, std::byte{3});
  EXPECT_EQ(variables_.write(*variable, third.data()), "");
  EXPECT_EQ(variables_.usage().counted, Bytes{});
  EXPECT_TRUE(holds(*variable, 3));
  memory_.free(blocker);
  EXPECT_EQ(variables_.write(*variable, second.data()), "");
  EXPECT_EQ(variables_.usage().counted, variable->bytes());
  EXPECT_TRUE(holds(*variable, 2));
}

TEST_F(VariablesTest, WhatIsWrittenIsThereThoughItLeavesMeanwhile) {
  const auto variable = filled(kMiB * 2 + Bytes{5}, 0);
  std::atomic<bool> ends{false};
  std::thread evicts([&] {
    while (!ends) variables_.make_room(kMiB * 2, Victims::kInUse);
  });
  for (int value = 1; value < 100; ++value) {
    const std::vector<std::byte> bytes(variable->bytes().count, static_cast<std::byte>(value));
    ASSERT_EQ(variables_.write(*variable, bytes.data()), "");
    ASSERT_TRUE(holds(*variable, value)) << value;
  }
  ends = true;
  evicts.join();
}

TEST_F(VariablesTest, UpToAShareTheyLieInMemoryAndSmallOnesInAnyCase) {
  EXPECT_FALSE(variables_.maps_new(kMiB));
  EXPECT_FALSE(variables_.maps_new(kMiB));
  EXPECT_TRUE(variables_.maps_new(Bytes{100}));
  EXPECT_FALSE(variables_.maps_new(Bytes{99}));
  EXPECT_TRUE(variables_.may_map(Bytes{100}));
  EXPECT_FALSE(variables_.may_map(Bytes{99}));
  EXPECT_FALSE(variables_.maps_new(Bytes{0}));
}

TEST_F(VariablesTest, OnesThatDiedMakePlaceInMemory) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(variables_.maps_new(kMiB));
    EXPECT_FALSE(variables_.would_be_too_many(kMiB));
    EXPECT_TRUE(variables_.would_be_too_many(kMiB + Bytes{1}));
    variables_.died_in_memory(kMiB);
  }
  EXPECT_FALSE(variables_.maps_new(kMiB * 2));
  EXPECT_TRUE(variables_.maps_new(kMiB));
  variables_.died_in_memory(kMiB * 2);
  EXPECT_FALSE(variables_.would_be_too_many(kMiB * 3)) << "as they were before";
  EXPECT_TRUE(variables_.maps_new(kMiB)) << "once there were too many, all are mapped";
}

// Of 8 MiB: five of 3 MiB, so two are counted at a time.
TEST_F(VariablesTest, MoreOfThemThanTheBudgetKeepTheirBytesAndTheBudget) {
  std::vector<std::shared_ptr<VariableMemory>> all;
  all.reserve(5);
  for (int i = 0; i < 5; ++i) all.push_back(filled(kMiB * 3, i + 1));
  EXPECT_EQ(variables_.usage().bytes, kMiB * 15);
  EXPECT_EQ(variables_.usage().counted, kMiB * 6);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t i = 0; i < 5; ++i) {
      ASSERT_EQ(variables_.use(*all[i]), "");
      EXPECT_TRUE(holds(*all[i], static_cast<int>(i) + 1));
    }
  }
  EXPECT_LE(memory_.usage().peak_held, kMiB * 8);
  EXPECT_EQ(memory_.usage().failures, 0U);
  all.clear();
  EXPECT_EQ(memory_.usage().live, Bytes{});
  EXPECT_EQ(store_.usage().places, 0U);
}

TEST_F(VariablesTest, WhatMovesIsNamed) {
  const auto variable = variables_.make(kMiB, "model/dense/kernel");
  EXPECT_EQ(variables_.use(*variable), "");
  variables_.make_room(kMiB, Victims::kIdle);
  EXPECT_EQ(variables_.use(*variable), "");
  const auto movers = store_.top_movers(2);
  ASSERT_EQ(movers.size(), 1U);
  EXPECT_EQ(movers.front().name, "model/dense/kernel 1 MiB");
  EXPECT_EQ(movers.front().bytes, kMiB * 3) << "in, out and in";
}

TEST_F(VariablesTest, ThoseUsedLongestAgoMakeRoomForAnAllocation) {
  const auto first = filled(kMiB * 3, 1);
  const auto second = filled(kMiB * 3, 2);
  ASSERT_EQ(variables_.use(*first), "");
  const auto written = store_.statistics().stored_on_disk;
  std::byte* const place = memory_.allocate(kMiB * 4, 64);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(variables_.usage().counted, kMiB * 3);
  EXPECT_EQ(store_.statistics().stored_on_disk - written, kMiB * 3);
  const auto read = store_.statistics().loaded_from_disk;
  ASSERT_EQ(variables_.use(*first), "") << "it was counted all along";
  EXPECT_EQ(store_.statistics().loaded_from_disk, read);
  memory_.free(place);
}

TEST_F(VariablesTest, WhatAnOpWorksOnLeavesLastAndIsNotInMemoryUncountedAfterwards) {
  const auto first = filled(kMiB * 3, 1);
  const auto second = filled(kMiB * 3, 2);
  ASSERT_EQ(variables_.begin_op(*first, Part::kAll), "");
  ASSERT_EQ(variables_.use(*second), "");
  std::byte* const place = memory_.allocate(kMiB * 4, 64);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(resident(*first), kMiB * 3) << "used longest ago, but by an op under way";
  EXPECT_EQ(resident(*second), Bytes{});
  // Whoever holds the rest may be that op: it waits for itself.
  std::byte* const more = memory_.allocate(kMiB * 3, 64);
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(variables_.usage().counted, Bytes{});
  EXPECT_TRUE(holds(*first, 1));
  EXPECT_EQ(resident(*first), kMiB * 3);
  variables_.end_op(*first);
  EXPECT_EQ(resident(*first), Bytes{});
  EXPECT_TRUE(holds(*first, 1));
  memory_.free(place);
  memory_.free(more);
}

TEST_F(VariablesTest, PagesOfAPartGoWithTheLastOpThatWorksOnIt) {
  const auto variable = variables_.make(kMiB);
  ASSERT_EQ(variables_.begin_op(*variable, Part::kSome), "");
  ASSERT_EQ(variables_.begin_op(*variable, Part::kSome), "");
  std::memset(variable->data(), 5, variable->bytes().count);
  EXPECT_EQ(variables_.usage().counted, Bytes{});
  variables_.end_op(*variable);
  EXPECT_EQ(resident(*variable), kMiB);
  variables_.end_op(*variable);
  EXPECT_EQ(resident(*variable), Bytes{});
  EXPECT_TRUE(holds(*variable, 5));
}

// Of 8 MiB: an op is given three of 3 MiB, of which one counts already and one is given to another.
TEST_F(VariablesTest, TheMostThatOpsWorkedOnUncountedIsKnown) {
  const auto counted = variables_.make(kMiB * 3);
  const auto second = variables_.make(kMiB * 3);
  const auto third = variables_.make(kMiB * 3);
  ASSERT_EQ(variables_.use(*counted), "");
  for (const auto& variable : {counted, second, third}) {
    ASSERT_EQ(variables_.begin_op(*variable, Part::kAllUncounted), "");
  }
  ASSERT_EQ(variables_.begin_op(*third, Part::kAllUncounted), "");
  EXPECT_EQ(variables_.usage().counted, kMiB * 3);
  EXPECT_EQ(variables_.usage().peak_uncounted, kMiB * 6);
  for (const auto& variable : {counted, second, third, third}) variables_.end_op(*variable);
  // One after the other is no more.
  ASSERT_EQ(variables_.begin_op(*second, Part::kAllUncounted), "");
  ASSERT_EQ(variables_.use(*second), "") << "it counts from now on";
  ASSERT_EQ(variables_.begin_op(*third, Part::kAllUncounted), "");
  variables_.end_op(*second);
  variables_.end_op(*third);
  ASSERT_EQ(variables_.begin_op(*third, Part::kSome), "");
  variables_.end_op(*third);
  EXPECT_EQ(variables_.usage().peak_uncounted, kMiB * 6);
}

TEST_F(VariablesTest, WhatIsCountedStaysWhenAnOpEnds) {
  const auto variable = filled(kMiB, 1);
  ASSERT_EQ(variables_.begin_op(*variable, Part::kSome), "");
  variables_.end_op(*variable);
  EXPECT_EQ(resident(*variable), kMiB);
}

// Three of which two find room, one after the other in each step. The least recently used would be
// away whenever its turn comes; at best every second one is there (Belady).
TEST_F(VariablesTest, TheOneWithTheFurthestNextUseLeavesFirst) {
  std::vector<std::shared_ptr<VariableMemory>> all;
  all.reserve(3);
  for (int i = 0; i < 3; ++i) all.push_back(filled(kMiB * 3, i));
  int away = 0;
  for (int step = 0; step < 8; ++step) {
    for (const auto& variable : all) {
      if (step >= 4 && resident(*variable) == Bytes{}) ++away;
      ASSERT_EQ(variables_.use(*variable), "");
    }
    variables_.end_step(1);
  }
  EXPECT_EQ(away, 6) << "of 12 uses";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(holds(*all[static_cast<std::size_t>(i)], i));
}

// Their next uses are foretold, so whoever looks for the furthest passes by those that go.
TEST_F(VariablesTest, OwnersLetGoWhileAVictimIsLookedFor) {
  constexpr std::size_t kCount = 500;
  const Bytes size{4096};
  std::vector<std::shared_ptr<VariableMemory>> kept;
  for (std::size_t i = 0; i < kCount; ++i) kept.push_back(filled(size, 1));
  std::atomic<bool> done = false;
  std::thread looks([&] {
    while (!done) variables_.make_room(size, Victims::kIdle);
  });
  for (int round = 0; round < 200; ++round) {
    for (const auto& variable : kept) EXPECT_EQ(variables_.use(*variable), "");
    variables_.end_step(1);
    kept.erase(kept.begin(), kept.begin() + kCount / 2);
    while (kept.size() < kCount) {
      kept.push_back(variables_.make(size));
      EXPECT_EQ(variables_.use(*kept.back()), "");
    }
  }
  done = true;
  looks.join();
  kept.clear();
  EXPECT_EQ(variables_.usage().counted, Bytes{});
  EXPECT_EQ(memory_.usage().live, Bytes{});
}

TEST_F(VariablesTest, OneThatDoesNotFitSaysHowMuch) {
  const auto large = variables_.make(kMiB * 9);
  ASSERT_NE(large, nullptr);
  EXPECT_THAT(variables_.use(*large), HasSubstr("need 9 MiB, have 8 MiB of 8 MiB, short"));
}

TEST_F(VariablesTest, AFullDiskGivesNoneAndOneThatFailsLeavesItInMemory) {
  EXPECT_EQ(variables_.make(kMiB * 65), nullptr);
  EXPECT_THAT(stays_, HasSubstr("short"));
  const auto first = filled(kMiB * 6, 1);
  arm_faults("spool.write=EIO@1+");
  EXPECT_EQ(memory_.allocate(kMiB * 4, 64), nullptr);
  EXPECT_THAT(stays_, HasSubstr("Input/output error"));
  EXPECT_EQ(variables_.usage().counted, kMiB * 6);
  EXPECT_EQ(variables_.usage().refused, 2U);
  EXPECT_EQ(variables_.usage().refusal, stays_);
  EXPECT_TRUE(holds(*first, 1));
}

class WaitingThreads final : public MemoryObserver {
 public:
  void allocated(const std::byte* /*pointer*/, Bytes /*bytes*/, Bytes /*live*/) override {}
  void freed(const std::byte* /*pointer*/) noexcept override {}
  void begins_to_wait(TimeNs /*now*/) override { ++begun; }
  void has_waited(TimeNs /*now*/) override { ++ended; }

  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
};

// It is away, of 6 MiB in a budget of 16, when two ops that use it begin: it is counted once.
TEST_F(VariablesTest, OpsThatBeginTogetherBringItOnce) {
  BudgetedMemory memory(kMiB * 16, runtime::Poison::kNo);
  WaitingThreads waiting;
  memory.set_observer(waiting);
  Variables variables({.smallest = Bytes{100}}, memory, store_, [](const std::string&) {});
  const auto variable = variables.make(kMiB * 6);
  std::byte* const blocker = memory.allocate(kMiB * 14, 64);
  // Room is said to be on its way, so nobody gives up.
  memory.expect_room(kMiB);
  std::vector<std::thread> ops;
  ops.reserve(2);
  for (int i = 0; i < 2; ++i) {
    ops.emplace_back([&] {
      EXPECT_EQ(variables.begin_op(*variable, Part::kAll), "");
      variables.end_op(*variable);
    });
  }
  while (waiting.begun != 2) std::this_thread::yield();
  memory.free(blocker);
  memory.clear_peak();
  memory.room_came(kMiB);
  for (std::thread& op : ops) op.join();
  EXPECT_EQ(memory.usage().peak_live, kMiB * 6);
  EXPECT_EQ(memory.usage().waits, 1U);
  EXPECT_EQ(waiting.ended, 2) << "both are in the figures of time";
}

// Whoever gets no room leaves the others to try.
TEST_F(VariablesTest, AnOpThatGetsNoRoomKeepsNoOtherFromIt) {
  const auto variable = variables_.make(kMiB * 4);
  std::byte* const blocker = memory_.allocate(kMiB * 6, 64);
  EXPECT_THAT(variables_.use(*variable), HasSubstr("does not fit"));
  memory_.free(blocker);
  EXPECT_EQ(variables_.use(*variable), "");
  EXPECT_EQ(memory_.usage().live, kMiB * 4);
}

TEST_F(VariablesTest, ManyThreadsWriteAndReadTheirOwnBesideEachOther) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &wrong] {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<std::shared_ptr<VariableMemory>> own;
      own.reserve(3);
      for (int i = 0; i < 3; ++i) own.push_back(filled(kMiB, t * 10 + i));
      for (int turn = 0; turn < 40; ++turn) {
        const auto i = random() % 3;
        const int value = t * 10 + static_cast<int>(i);
        if (!variables_.use(*own[i]).empty() || !holds(*own[i], value)) ++wrong;
        std::memset(own[i]->data(), value, own[i]->bytes().count);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_LE(memory_.usage().peak_held, kMiB * 8);
}

// An op that works longer than others wait for it: its pages go again and again while it reads and
// writes them. It works until they have, however late a busy machine wakes who sends them.
TEST_F(VariablesTest, WhatLeavesUnderAnOpThatWritesKeepsEveryByte) {
  const auto variable = filled(kMiB * 2, 0);
  constexpr std::uint32_t kMostRounds = 20'000;
  std::uint32_t rounds = 0;
  std::atomic<int> left{0};
  std::atomic<bool> ended{false};
  std::thread op([&] {
    EXPECT_EQ(variables_.begin_op(*variable, Part::kAll), "");
    auto* const numbers = reinterpret_cast<std::uint32_t*>(variable->data());
    const std::size_t count = variable->bytes().count / sizeof(std::uint32_t);
    for (; rounds < kMostRounds && left <= 10; ++rounds) {
      for (std::size_t i = 0; i < count; ++i) numbers[i] += static_cast<std::uint32_t>(i);
    }
    variables_.end_op(*variable);
    ended = true;
  });
  while (!ended) {
    if (variables_.make_room(kMiB, Victims::kInUse).count != 0) ++left;
    EXPECT_EQ(variables_.use(*variable), "");
  }
  op.join();
  EXPECT_GT(left, 10);
  const auto* const numbers = reinterpret_cast<const std::uint32_t*>(variable->data());
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < variable->bytes().count / sizeof(i); ++i) {
    if (numbers[i] != i * rounds) ++wrong;
  }
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace spillway::tf
