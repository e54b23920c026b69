// SPDX-License-Identifier: Apache-2.0
// Random programs under the engine, on a stand-in card that does as late and in as odd an order as
// it may, with less memory than they need, in each mode and with little or much memory below it.
// PROGRAMS says how many (100), PROGRAM_SEED where they start (1); a failure prints the seed of its
// program.
//
// Compared are the bytes that kernels read, what the card complains of and what it holds. That the
// programs would find a wait that is missing is shown by taking each away, one at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine_program.hpp"
#include "missing_waits.hpp"
#include "program_seeds.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"
#include "spillway/testing/device/thread_device.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {
namespace {

using spillway::testing::DeviceCall;
using spillway::testing::FakeFramework;
using spillway::testing::Pace;
using spillway::testing::ThreadDevice;

constexpr Bytes kGranule = EngineProgram::kGranule;
constexpr Bytes kBudget = kGranule * 16;
static_assert(EngineProgram::kLargestWorkingSet * kGranule.count <= kBudget.count);

const ProgramSeeds& seeds() {
  static const ProgramSeeds stated = ProgramSeeds::stated(100);
  return stated;
}

BudgetSpec bytes(Bytes amount) { return {.kind = BudgetSpec::Kind::kBytes, .bytes = amount}; }

/// Mode, and what lies below the card, by the seed of a program.
Settings settings_of(std::uint64_t seed, Bytes budget) {
  Settings settings;
  settings.budget = bytes(budget);
  settings.host_budget = bytes(seed % 2 == 0 ? kMiB * 16 : kMiB);
  settings.disk_budget = bytes(kMiB * 64);
  settings.spool_dir = ::testing::TempDir();
  settings.recompute = Recompute::kOn;
  settings.mode = seed % 5 == 0 ? Mode::kFuzz : seed % 5 == 1 ? Mode::kVerify : Mode::kEnforce;
  return settings;
}

/// An engine with a budget of a card that it may share.
class CardEngine {
 public:
  CardEngine(ThreadDevice& device, SkippingDriver::Skips skips, std::uint64_t seed, Bytes budget)
      : engine_(std::make_unique<Engine>(
            framework_,
            std::make_unique<CardTiers>(std::make_unique<SkippingDriver>(device, std::move(skips)),
                                        CardOptions{.addresses = kMiB * 256,
                                                    .slab = kMiB,
                                                    .chunk = kGranule,
                                                    .ticks = {.ops = 4}}))) {
    engine_->start(settings_of(seed, budget));
  }
  ~CardEngine() {
    renew_this_thread_frames();
    engine_->stop();
  }
  CardEngine(const CardEngine&) = delete;
  CardEngine& operator=(const CardEngine&) = delete;

  Engine& operator*() { return *engine_; }

 private:
  FakeFramework framework_;
  std::unique_ptr<Engine> engine_;
};

std::vector<DeviceStream> streams_of(ThreadDevice& device) {
  std::vector<DeviceStream> streams(kProgramStreams);
  for (DeviceStream& stream : streams) {
    expect_done(device, device.create_stream(stream), "making a stream");
  }
  return streams;
}

std::string complaints_of(ThreadDevice& device) {
  std::string all;
  for (const std::string& complaint : device.complaints()) all += complaint + "; ";
  return all;
}

struct Outcome {
  std::uint64_t wrong = 0;
  std::string said;        // with a failure
  std::string complaints;  // of the card
  std::uint64_t kernels = 0;
  Bytes most_used{};
  Statistics statistics;

  [[nodiscard]] bool well() const { return wrong == 0 && said.empty() && complaints.empty(); }
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.wrong << " wrong; " << outcome.said << "; " << outcome.complaints;
}

Outcome run_program(Pace pace, std::uint64_t seed, const SkippingDriver::Skips& skips = {},
                    const std::function<void(ThreadDevice&)>& spoil = {}) {
  Outcome outcome;
  ThreadDevice device({.memory = kBudget * 4,
                       .granule = kGranule.count,
                       .pace = pace,
                       .seed = seed,
                       .longest_delay_us = 100});
  const std::vector<DeviceStream> streams = streams_of(device);
  try {
    CardEngine engine(device, skips, seed, kBudget);
    if (spoil) spoil(device);
    EngineProgram program(device, *engine, streams, seed);
    outcome.said = program.run(5);
    outcome.wrong = program.wrong();
    outcome.kernels = program.kernels();
    outcome.most_used = program.most_used();
    outcome.statistics = (*engine).statistics();
  } catch (const std::exception& failure) {
    outcome.said = failure.what();
  }
  outcome.complaints = complaints_of(device);
  return outcome;
}

TEST(EngineProgramsTest, ComputeWhatTheyWouldOneAfterTheOtherWithinTheBudget) {
  MoveStatistics moved;
  Bytes written{};
  std::uint64_t kernels = 0;
  for (std::uint64_t seed = seeds().first; seed < seeds().end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed);
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome;
    ASSERT_LE(outcome.most_used, kBudget) << "PROGRAM_SEED=" << seed;
    ASSERT_LE(outcome.statistics.peak_device, kBudget) << "PROGRAM_SEED=" << seed;
    ASSERT_EQ(outcome.statistics.overshoot, Bytes{0}) << "PROGRAM_SEED=" << seed;
    kernels += outcome.kernels;
    moved.evictions += outcome.statistics.moves.evictions;
    moved.fetches += outcome.statistics.moves.fetches;
    moved.recalls += outcome.statistics.moves.recalls;
    moved.clean_evicted += outcome.statistics.moves.clean_evicted;
    written += outcome.statistics.disk_written;
  }
  // What did not happen was not tested.
  EXPECT_GT(kernels, 50 * seeds().count);
  EXPECT_GT(moved.evictions, 20 * seeds().count);
  EXPECT_GT(moved.fetches, 20 * seeds().count);
  EXPECT_GT(moved.clean_evicted, kGranule * seeds().count);
  EXPECT_GT(written, kGranule * seeds().count);
  std::printf(
      "%llu programs, %llu kernels, %llu evictions, %llu fetches, %llu recalls, %s to disk\n",
      static_cast<unsigned long long>(seeds().count), static_cast<unsigned long long>(kernels),
      static_cast<unsigned long long>(moved.evictions),
      static_cast<unsigned long long>(moved.fetches),
      static_cast<unsigned long long>(moved.recalls), to_string(written).c_str());
}

TEST(EngineProgramsTest, ComputeTheSameOnThreadsOfTheCard) {
  const ProgramSeeds tenth = seeds().share(1, 10);
  for (std::uint64_t seed = tenth.first; seed < tenth.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kThreads, seed);
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome;
  }
}

/// What programs did, each on a thread of its own with its engine.
std::vector<Outcome> run_beside(ThreadDevice& device, const std::vector<Engine*>& engines,
                                std::uint64_t seed) {
  const std::vector<DeviceStream> streams = streams_of(device);
  std::vector<Outcome> outcomes(engines.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < engines.size(); ++i) {
    threads.emplace_back([&, i] {
      EngineProgram program(device, *engines[i], {streams[i], streams[kProgramStreams - 1]},
                            seed * 10 + i);
      outcomes[i].said = program.run(4);
      outcomes[i].wrong = program.wrong();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void expect_well(ThreadDevice& device, const std::vector<Outcome>& outcomes, std::uint64_t seed) {
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome;
  }
  ASSERT_EQ(complaints_of(device), "") << "PROGRAM_SEED=" << seed;
}

TEST(EngineProgramsTest, ShareAnEngineFromSeveralThreads) {
  const ProgramSeeds tenth = seeds().share(1, 10);
  for (std::uint64_t seed = tenth.first; seed < tenth.end(); ++seed) {
    ThreadDevice device({.memory = kBudget * 4,
                         .granule = kGranule.count,
                         .pace = seed % 2 == 0 ? Pace::kThreads : Pace::kByCalls,
                         .seed = seed,
                         .longest_delay_us = 50});
    CardEngine engine(device, {}, seed, kBudget * 2);
    expect_well(device, run_beside(device, {&*engine, &*engine}, seed), seed);
    ASSERT_LE((*engine).statistics().peak_device, kBudget * 2) << "PROGRAM_SEED=" << seed;
  }
}

TEST(EngineProgramsTest, ShareACardFromTwoEngines) {
  const ProgramSeeds tenth = seeds().share(1, 10);
  for (std::uint64_t seed = tenth.first; seed < tenth.end(); ++seed) {
    ThreadDevice device({.memory = kBudget * 2,
                         .granule = kGranule.count,
                         .pace = seed % 2 == 0 ? Pace::kThreads : Pace::kByCalls,
                         .seed = seed,
                         .longest_delay_us = 50});
    CardEngine one(device, {}, seed, kBudget);
    CardEngine two(device, {}, seed + 1, kBudget);
    expect_well(device, run_beside(device, {&*one, &*two}, seed), seed);
    for (Engine* const engine : {&*one, &*two}) {
      ASSERT_LE(engine->statistics().peak_device, kBudget) << "PROGRAM_SEED=" << seed;
    }
  }
}

/// Each call fails once, somewhere in a program: it goes on, or ends in words that name what
/// failed.
TEST(EngineProgramsTest, SurviveOrEndInWordsWhenACallFails) {
  std::uint64_t survived = 0;
  std::uint64_t ended = 0;
  const ProgramSeeds most = seeds().share(3, 4);
  for (std::uint64_t seed = most.first; seed < most.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed, {},
                                        [&](ThreadDevice& device) { fail_one_call(device, seed); });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_EQ(outcome.complaints, "") << "PROGRAM_SEED=" << seed;
    if (!outcome.said.empty()) {
      ASSERT_TRUE(outcome.said.find("failed while") != std::string::npos ||
                  outcome.said.find("the device refuses memory") != std::string::npos ||
                  outcome.said.find("refused the copy") != std::string::npos)
          << "PROGRAM_SEED=" << seed << ": " << outcome.said;
    }
    ++(outcome.said.empty() ? survived : ended);
  }
  EXPECT_GT(survived, most.count / 15);
  EXPECT_GT(ended, most.count / 15);
}

TEST(EngineProgramsTest, EndInWordsWhenTheDeviceIsLost) {
  const ProgramSeeds quarter = seeds().share(1, 4);
  for (std::uint64_t seed = quarter.first; seed < quarter.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed, {}, [&](ThreadDevice& device) {
      device.fail(DeviceCall::kRecord, 1 + static_cast<unsigned>(seed % 40), ThreadDevice::kLost,
                  true);
    });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_NE(outcome.said.find("start it again"), std::string::npos)
        << "PROGRAM_SEED=" << seed << ": " << outcome.said;
  }
}

class MissingWaitUnderTheEngineTest : public ::testing::TestWithParam<MissingWait> {};

TEST_P(MissingWaitUnderTheEngineTest, IsFound) {
  expect_found(GetParam(), [](std::uint64_t seed) {
    return run_program(Pace::kByCalls, seed, GetParam().skips).well();
  });
}

INSTANTIATE_TEST_SUITE_P(EnginePrograms, MissingWaitUnderTheEngineTest,
                         ::testing::ValuesIn(missing_waits()),
                         [](const auto& missing) { return std::string(missing.param.name); });

}  // namespace
}  // namespace spillway::runtime
