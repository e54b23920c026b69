// SPDX-License-Identifier: Apache-2.0
// Storages that are dropped, and made again by running the ops that made them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "engine_fixture.hpp"
#include "spillway/runtime/exec/making.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::uint64_t kBytes = 256 << 10;
constexpr std::uint64_t kWords = kBytes / sizeof(std::uint64_t);

using Words = std::vector<std::uint64_t>;

/// Each word of the result is a function of the sources' words at its place.
std::uint64_t mixed(std::uint64_t salt, std::uint64_t sum) {
  return (sum ^ salt) * 0x9e3779b97f4a7c15U + salt;
}

/// What the program's own code and the op that is run again both do.
void run_words(std::uint64_t salt, std::span<std::byte* const> sources, std::byte* to) {
  auto* const result = reinterpret_cast<std::uint64_t*>(to);
  for (std::uint64_t i = 0; i < kWords; ++i) {
    std::uint64_t sum = 0;
    for (const std::byte* source : sources)
      sum = sum * 31 + reinterpret_cast<const std::uint64_t*>(source)[i];
    result[i] = mixed(salt, sum);
  }
}

std::atomic<bool> g_fails{false};
std::atomic<std::uint64_t> g_runs{0};

class WordsMaking final : public Making {
 public:
  explicit WordsMaking(std::uint64_t salt, TimeNs cost = 1'000) : Making(cost), salt_(salt) {}

  [[nodiscard]] const char* name() const noexcept override { return "words"; }
  [[nodiscard]] bool usable() const noexcept override { return true; }
  void run(std::span<std::byte* const> sources, std::uint32_t /*output*/,
           std::byte* to) const override {
    if (g_fails) throw std::runtime_error("the op fails");
    g_runs.fetch_add(1);
    run_words(salt_, sources, to);
  }

 private:
  std::uint64_t salt_;
};

class EngineRecomputeTest : public EngineTest {
 protected:
  EngineRecomputeTest() {
    g_fails = false;
    g_runs = 0;
  }

  void start(Bytes budget, Mode mode = Mode::kEnforce) {
    Settings wanted = settings(budget);
    wanted.mode = mode;
    wanted.recompute = Recompute::kOn;
    engine_.start(wanted);
  }
  /// An op that makes a storage from others.
  FakeStorage* derive(std::uint64_t salt, const std::vector<FakeStorage*>& from,
                      TimeNs cost = 1'000) {
    FakeOp op(engine_);
    std::vector<std::byte*> addresses;
    std::vector<StorageRecord*> records;
    for (const FakeStorage* source : from) {
      EXPECT_TRUE(op.read(*source));
      addresses.push_back(source->pointer);
      records.push_back(source->record);
    }
    EXPECT_TRUE(engine_.inputs_ready());
    FakeStorage* const storage = make_storage(engine_, kBytes);
    run_words(salt, addresses, storage->pointer);
    const std::array results{storage->record};
    engine_.made(results, std::make_shared<WordsMaking>(salt, cost), records);
    return storage;
  }
  /// An op that overwrites its first operand.
  void overwrite(FakeStorage& storage, std::uint64_t salt,
                 const std::vector<FakeStorage*>& others) {
    FakeOp op(engine_);
    const Making::Source before = engine_.before_write(*storage.record);
    EXPECT_TRUE(op.write(storage));
    std::vector<std::byte*> addresses{storage.pointer};
    std::vector<StorageRecord*> records;
    for (const FakeStorage* source : others) {
      EXPECT_TRUE(op.read(*source));
      addresses.push_back(source->pointer);
      records.push_back(source->record);
    }
    EXPECT_TRUE(engine_.inputs_ready());
    run_words(salt, addresses, storage.pointer);
    engine_.end_writes();
    engine_.made_over(*storage.record, before, std::make_shared<WordsMaking>(salt), records);
  }
  Words words(const FakeStorage& storage) {
    FakeOp op(engine_);
    EXPECT_TRUE(op.read(storage)) << Engine::last_failure();
    const auto* begin = reinterpret_cast<const std::uint64_t*>(storage.pointer);
    return {begin, begin + kWords};
  }
  static Words expected(std::uint64_t salt, const std::vector<Words>& from) {
    Words result(kWords);
    std::vector<std::byte*> addresses;
    for (const Words& each : from) {
      addresses.push_back(
          reinterpret_cast<std::byte*>(const_cast<std::uint64_t*>(each.data())));  // NOLINT
    }
    run_words(salt, addresses, reinterpret_cast<std::byte*>(result.data()));
    return result;
  }
  static ResidencyState state(const FakeStorage& storage) { return storage.record->state.load(); }
};

constexpr Bytes kSome{6 << 20};

TEST_F(EngineRecomputeTest, WhatIsCheapToMakeIsDroppedAndMadeAgain) {
  start(kSome);
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive(7, {source});
  const Words before = words(*result);
  std::vector<FakeStorage*> others;
  for (std::uint64_t i = 0; i < 30; ++i) others.push_back(make(kBytes, 10 + i));
  EXPECT_EQ(state(*result), ResidencyState::kDropped);
  EXPECT_EQ(words(*result), before);
  const Statistics statistics = engine_.statistics();
  EXPECT_EQ(statistics.moves.recomputations, 1U);
  EXPECT_EQ(statistics.moves.recomputed.count, kBytes);
  EXPECT_EQ(g_runs, 1U);
  for (FakeStorage* other : others) drop_storage(engine_, other);
}

TEST_F(EngineRecomputeTest, WhatTakesLongerThanItsCopyIsCopied) {
  start(kSome);
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive(7, {source}, 1'000'000'000);
  for (std::uint64_t i = 0; i < 30; ++i) make(kBytes, 10 + i);
  EXPECT_NE(state(*result), ResidencyState::kResident);
  EXPECT_NE(state(*result), ResidencyState::kDropped);
}

TEST_F(EngineRecomputeTest, NothingIsDroppedWhereTheSettingsSaySo) {
  Settings wanted = settings(kSome);
  wanted.recompute = Recompute::kOff;
  engine_.start(wanted);
  EXPECT_FALSE(engine_.recomputes());
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive(7, {source});
  for (std::uint64_t i = 0; i < 30; ++i) make(kBytes, 10 + i);
  EXPECT_NE(state(*result), ResidencyState::kDropped);
}

// In fuzz mode what can be dropped is, at every op, where its id is even.
class EngineFuzzRecomputeTest : public EngineRecomputeTest {
 protected:
  EngineFuzzRecomputeTest() { start(Bytes{64 << 20}, Mode::kFuzz); }

  /// A storage that is dropped between ops.
  FakeStorage* derive_even(std::uint64_t salt, const std::vector<FakeStorage*>& from) {
    FakeStorage* storage = derive(salt, from);
    if (to_value(storage->record->id) % 2 == 0) return storage;
    FakeStorage* const next = derive(salt, from);
    drop_storage(engine_, storage);
    EXPECT_EQ(to_value(next->record->id) % 2, 0U);
    return next;
  }
  struct Dropped {
    FakeStorage* source;
    Words first;  // of the source
    FakeStorage* result;
  };
  /// A storage that is dropped, made by op 7 from a source.
  Dropped make_dropped() {
    FakeStorage* const source = make(kBytes, 1);
    Dropped made{source, words(*source), derive_even(7, {source})};
    push_out();
    EXPECT_EQ(state(*made.result), ResidencyState::kDropped);
    return made;
  }
  void push_out() {
    { const FakeOp op(engine_); }  // which lets go of what the last one made
    engine_.push_out(true);
  }
};

TEST_F(EngineFuzzRecomputeTest, WhoeverWritesASourceFindsItsResultsMade) {
  const auto [source, first, result] = make_dropped();
  overwrite(*source, 8, {});
  EXPECT_EQ(g_runs, 1U);
  EXPECT_EQ(words(*result), expected(7, {first}));
  EXPECT_EQ(words(*source), expected(8, {first}));
}

TEST_F(EngineFuzzRecomputeTest, ASourceThatDiesLivesOnUntilItsResultsAreMade) {
  const auto [source, first, result] = make_dropped();
  drop_storage(engine_, source);
  make(kBytes, 3);  // would have its memory
  EXPECT_EQ(engine_.statistics().storages, 3U);
  EXPECT_EQ(words(*result), expected(7, {first}));
  push_out();  // it is not made from what died
  EXPECT_EQ(engine_.statistics().storages, 2U);
  EXPECT_EQ(words(*result), expected(7, {first}));
}

TEST_F(EngineFuzzRecomputeTest, WhatDiesWhileItIsDroppedLetsItsSourcesGo) {
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive_even(7, {source});
  push_out();
  ASSERT_EQ(state(*result), ResidencyState::kDropped);
  drop_storage(engine_, source);
  drop_storage(engine_, result);
  EXPECT_EQ(engine_.statistics().storages, 0U);
  EXPECT_EQ(engine_.statistics().peak_live.count % 4096, 0U);
}

TEST_F(EngineFuzzRecomputeTest, WhatDiedOnTheWayIsMadeOnTheWay) {
  FakeStorage* const source = make(kBytes, 1);
  const Words first = words(*source);
  FakeStorage* const between = derive(7, {source});
  FakeStorage* const result = derive_even(9, {between, source});
  drop_storage(engine_, between);
  push_out();
  ASSERT_EQ(state(*result), ResidencyState::kDropped);
  EXPECT_EQ(words(*result), expected(9, {expected(7, {first}), first}));
  EXPECT_EQ(g_runs, 2U);
  EXPECT_EQ(engine_.statistics().storages, 2U);
}

TEST_F(EngineFuzzRecomputeTest, WhatWasOverwrittenIsMadeOverAgain) {
  FakeStorage* const source = make(kBytes, 1);
  const Words first = words(*source);
  FakeStorage* const result = derive_even(7, {source});
  overwrite(*result, 8, {source});
  push_out();
  ASSERT_EQ(state(*result), ResidencyState::kDropped);
  EXPECT_EQ(words(*result), expected(8, {expected(7, {first}), first}));
}

// As autograd saves what an op overwrites: within that op, before it is overwritten.
TEST_F(EngineFuzzRecomputeTest, WhatIsReadWhileItIsBeingWrittenMakesNothing) {
  FakeStorage* const source = make(kBytes, 1);
  const Words first = words(*source);
  FakeStorage* saved = nullptr;
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.write(*source));
    saved = derive_even(7, {source});
    source->fill(5);
  }
  push_out();
  EXPECT_NE(state(*saved), ResidencyState::kDropped);
  EXPECT_EQ(words(*saved), expected(7, {first}));
}

TEST_F(EngineFuzzRecomputeTest, AnOpThatGivesOtherBytesIsFoundOut) {
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive_even(7, {source});
  {
    FakeOp op(engine_);
    ASSERT_TRUE(op.read(*result));
    result->fill(3);  // an op that does not say that it writes
  }
  push_out();
  FakeOp op(engine_);
  EXPECT_FALSE(op.read(*result));
  EXPECT_THAT(Engine::last_failure(), ::testing::HasSubstr("was run again and gave other bytes"));
}

TEST_F(EngineFuzzRecomputeTest, AnOpThatFailsLeavesItsResultDropped) {
  FakeStorage* const source = make(kBytes, 1);
  const Words first = words(*source);
  FakeStorage* const result = derive_even(7, {source});
  push_out();
  g_fails = true;
  {
    FakeOp op(engine_);
    EXPECT_FALSE(op.read(*result));
    EXPECT_EQ(Engine::last_failure(), "the op fails");
  }
  EXPECT_EQ(state(*result), ResidencyState::kDropped);
  g_fails = false;
  EXPECT_EQ(words(*result), expected(7, {first}));
}

TEST_F(EngineFuzzRecomputeTest, WhatMayHaveBeenWrittenUnseenMakesNothing) {
  FakeStorage* const source = make(kBytes, 1);
  FakeStorage* const result = derive_even(7, {source});
  ASSERT_TRUE(engine_.keep(*source->record));
  engine_.release(*source->record);
  push_out();
  EXPECT_NE(state(*result), ResidencyState::kDropped);
}

TEST_F(EngineFuzzRecomputeTest, AnExportOfASourceComesAfterItsResults) {
  const auto [source, first, result] = make_dropped();
  ASSERT_TRUE(engine_.touch(*source->record, Access::kRead));
  engine_.begin_export(*source->record);
  source->fill(5);
  engine_.end_export(*source->record);
  EXPECT_EQ(words(*result), expected(7, {first}));
}

TEST_F(EngineFuzzRecomputeTest, AllIsMadeWhenTheEngineStops) {
  const auto [source, first, result] = make_dropped();
  engine_.stop();
  EXPECT_EQ(state(*result), ResidencyState::kResident);
  EXPECT_TRUE(result->accessible.load());
  EXPECT_EQ(words(*result), expected(7, {first}));
}

TEST_F(EngineFuzzRecomputeTest, AnOpWhoseUsesAreUnknownFindsAllMade) {
  const auto [source, first, result] = make_dropped();
  ASSERT_TRUE(engine_.touch(*source->record, Access::kRead));
  {
    const FakeOp op(engine_);
    const Engine::Reach reach(engine_);
    source->fill(5);
  }
  EXPECT_EQ(words(*result), expected(7, {first}));
}

/// Random programs beside plain vectors.
class RandomProgramsTest : public EngineRecomputeTest,
                           public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  struct Pair {
    FakeStorage* storage;
    Words words;
  };

  std::size_t pick() { return random_() % pairs_.size(); }
  std::vector<std::size_t> pick_some() {
    std::vector<std::size_t> some(1 + random_() % 3);
    for (std::size_t& each : some) each = pick();
    return some;
  }
  void derive_one() {
    std::vector<FakeStorage*> from;
    std::vector<Words> words;
    for (const std::size_t i : pick_some()) {
      from.push_back(pairs_[i].storage);
      words.push_back(pairs_[i].words);
    }
    const std::uint64_t salt = random_();
    pairs_.push_back({derive(salt, from), expected(salt, words)});
  }
  void overwrite_one() {
    const std::size_t target = pick();
    std::vector<FakeStorage*> from;
    std::vector<Words> words{pairs_[target].words};
    for (const std::size_t i : pick_some()) {
      if (i == target) continue;
      from.push_back(pairs_[i].storage);
      words.push_back(pairs_[i].words);
    }
    const std::uint64_t salt = random_();
    overwrite(*pairs_[target].storage, salt, from);
    pairs_[target].words = expected(salt, words);
  }
  void write_between_ops() {
    Pair& pair = pairs_[pick()];
    ASSERT_TRUE(engine_.touch(*pair.storage->record, Access::kWrite));
    const std::uint64_t seed = random_();
    pair.storage->fill(seed);
    const auto* begin = reinterpret_cast<const std::uint64_t*>(pair.storage->pointer);
    pair.words = {begin, begin + kWords};
  }
  void let_die() {
    if (pairs_.size() < 4) return;
    const std::size_t which = pick();
    drop_storage(engine_, pairs_[which].storage);
    pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  void run(std::size_t ops) {
    for (int i = 0; i < 3; ++i) {
      FakeStorage* const storage = make(kBytes, random_());
      pairs_.push_back({storage, words(*storage)});
    }
    for (std::size_t i = 0; i < ops; ++i) {
      const std::uint64_t what = random_() % 10;
      if (what < 4 && pairs_.size() < 24) {
        derive_one();
      } else if (what < 6) {
        overwrite_one();
      } else if (what < 7) {
        write_between_ops();
      } else if (what < 9) {
        let_die();
      } else {
        const Pair& pair = pairs_[pick()];
        ASSERT_EQ(words(*pair.storage), pair.words) << "op " << i;
      }
    }
    for (const Pair& pair : pairs_) ASSERT_EQ(words(*pair.storage), pair.words);
  }

  std::mt19937_64 random_{GetParam()};
  std::vector<Pair> pairs_;
};

TEST_P(RandomProgramsTest, ComputeWhatPlainOnesDoUnderFuzz) {
  start(Bytes{64 << 20}, Mode::kFuzz);
  run(200);
  EXPECT_GT(engine_.statistics().moves.recomputations, 0U);
}

TEST_P(RandomProgramsTest, ComputeWhatPlainOnesDoWithinABudget) {
  start(Bytes{4 << 20});
  run(400);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomProgramsTest, ::testing::Range<std::uint64_t>(0, 12));

}  // namespace
}  // namespace spillway::runtime
