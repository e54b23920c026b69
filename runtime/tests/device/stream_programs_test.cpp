// SPDX-License-Identifier: Apache-2.0
// Random programs on a stand-in card that does as late and in as odd an order as it may.
// PROGRAMS says how many (10,000), PROGRAM_SEED where they start (1); a failure prints the seed of
// its program.
//
// What is compared are the bytes that kernels read, and what the card complains of: work where
// nothing is mapped, unmapping under work. That the programs would find a wait that is missing is
// shown by taking each away, one at a time (SkippingDriver): the table below.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device_program.hpp"
#include "missing_waits.hpp"
#include "program_seeds.hpp"
#include "skipping_driver.hpp"
#include "spillway/runtime/device/device_watcher.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {
namespace {

using spillway::testing::Pace;
using spillway::testing::ThreadDevice;

constexpr Bytes kGranule{DeviceProgram::kGranule};

const ProgramSeeds& seeds() {
  static const ProgramSeeds stated = ProgramSeeds::stated(10'000);
  return stated;
}

/// A card with all that belongs to it, too small for what a program has.
struct Machine {
  Machine(Pace pace, std::uint64_t seed, SkippingDriver::Skips skips)
      : device({.memory = kGranule * 14, .pace = pace, .seed = seed, .longest_delay_us = 300}),
        driver(device, std::move(skips)) {
    for (DeviceStream& stream : streams) {
      expect_done(device, device.create_stream(stream), "making a stream");
    }
    storages.emplace(clock, CardStorageOptions{.device = kGranule * 14,
                                               .host = kGranule * 40,
                                               .slab = kGranule * 16,
                                               .ahead = seed % 2 == 0 ? OpensAhead::kOnCall
                                                                      : OpensAhead::kAtOnce});
  }

  ThreadDevice device;
  SkippingDriver driver;
  std::vector<DeviceStream> streams{kProgramStreams};
  StreamClock clock{driver, {.ops = 4}};
  std::optional<CardStorages> storages;

  ProgramCard card() { return {device, *storages}; }
};

struct Outcome {
  std::uint64_t wrong = 0;
  std::string said;        // with a failure
  std::string complaints;  // of the card
  std::uint64_t kernels = 0;
  residency::Statistics moved;

  [[nodiscard]] bool well() const { return wrong == 0 && said.empty() && complaints.empty(); }
};

Outcome run_program(Pace pace, std::uint64_t seed, const SkippingDriver::Skips& skips = {},
                    const std::function<void(ThreadDevice&)>& spoil = {}) {
  Outcome outcome;
  Machine machine(pace, seed, skips);
  if (spoil) spoil(machine.device);
  DeviceProgram program(machine.card(), machine.streams, seed);
  try {
    program.run(60);
    program.finish();
  } catch (const std::exception& failure) {
    outcome.said = failure.what();
    static_cast<void>(machine.device.synchronize());
  }
  outcome.wrong = program.wrong();
  for (const std::string& complaint : machine.device.complaints()) outcome.complaints += complaint;
  outcome.kernels = program.kernels();
  outcome.moved = machine.storages->statistics();
  return outcome;
}

TEST(StreamProgramsTest, ComputeWhatTheyWouldOneAfterTheOther) {
  std::uint64_t kernels = 0;
  residency::Statistics moved;
  for (std::uint64_t seed = seeds().first; seed < seeds().end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed);
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome.wrong << " wrong; "
                                << outcome.said << outcome.complaints;
    kernels += outcome.kernels;
    moved.evictions += outcome.moved.evictions;
    moved.clean_evictions += outcome.moved.clean_evictions;
    moved.rescued_evictions += outcome.moved.rescued_evictions;
    moved.fetches += outcome.moved.fetches;
    moved.failed_copies += outcome.moved.failed_copies;
  }
  // What did not happen was not tested.
  EXPECT_GT(kernels, 20 * seeds().count);
  EXPECT_GT(moved.evictions, seeds().count);
  EXPECT_GT(moved.clean_evictions, seeds().count / 4);
  EXPECT_GT(moved.rescued_evictions, seeds().count / 4);
  EXPECT_GT(moved.fetches, seeds().count);
  EXPECT_GT(moved.failed_copies, seeds().count / 10) << "those taken back";
  std::printf("%llu programs, %llu kernels, %llu evictions, %llu clean, %llu fetches\n",
              static_cast<unsigned long long>(seeds().count),
              static_cast<unsigned long long>(kernels),
              static_cast<unsigned long long>(moved.evictions),
              static_cast<unsigned long long>(moved.clean_evictions),
              static_cast<unsigned long long>(moved.fetches));
}

TEST(StreamProgramsTest, ComputeTheSameOnThreads) {
  const ProgramSeeds some = seeds().share(1, 100);
  for (std::uint64_t seed = some.first; seed < some.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kThreads, seed);
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome.wrong << " wrong; "
                                << outcome.said << outcome.complaints;
  }
}

/// Two programs on one card, each from a thread and on streams of its own, with a watcher beside
/// them that does nothing but look.
TEST(StreamProgramsTest, ShareACardFromSeveralThreads) {
  const ProgramSeeds few = seeds().share(1, 1'000);
  for (std::uint64_t seed = few.first; seed < few.end(); ++seed) {
    Machine machine(Pace::kThreads, seed, {});
    DeviceWatcher watcher(
        machine.driver,
        [&] {
          const std::lock_guard lock(machine.storages->mutex());
          machine.storages->advance();
          return true;
        },
        [](const std::string& said) { ADD_FAILURE() << said; });
    watcher.wake();
    DeviceProgram one(machine.card(), {machine.streams[0], machine.streams[1]}, seed);
    DeviceProgram two(machine.card(), {machine.streams[2]}, seed + 1'000);
    const auto run = [](DeviceProgram& program) {
      program.run(60);
      program.finish();
    };
    std::thread other(run, std::ref(two));
    run(one);
    other.join();
    EXPECT_EQ(one.wrong() + two.wrong(), 0U) << seed;
    EXPECT_TRUE(machine.device.complaints().empty()) << seed;
  }
}

/// Each call fails once, somewhere in a program: it goes on, or ends in words that name what
/// failed.
TEST(StreamProgramsTest, SurviveOrEndInWordsWhenACallFails) {
  std::uint64_t survived = 0;
  std::uint64_t ended = 0;
  const ProgramSeeds many = seeds().share(3, 20);
  for (std::uint64_t seed = many.first; seed < many.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed, {},
                                        [&](ThreadDevice& device) { fail_one_call(device, seed); });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_EQ(outcome.complaints, "") << "PROGRAM_SEED=" << seed;
    if (!outcome.said.empty()) {
      ASSERT_NE(outcome.said.find("stand-in card failed while"), std::string::npos)
          << "PROGRAM_SEED=" << seed << ": " << outcome.said;
    }
    ++(outcome.said.empty() ? survived : ended);
  }
  EXPECT_GT(survived, many.count / 15);
  EXPECT_GT(ended, many.count / 15);
}

TEST(StreamProgramsTest, EndInWordsWhenTheDeviceIsLost) {
  const ProgramSeeds some = seeds().share(1, 50);
  for (std::uint64_t seed = some.first; seed < some.end(); ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed, {}, [&](ThreadDevice& device) {
      device.fail(spillway::testing::DeviceCall::kRecord, 1 + static_cast<unsigned>(seed % 3),
                  ThreadDevice::kLost, true);
    });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_NE(outcome.said.find("start it again"), std::string::npos) << outcome.said;
  }
}

class MissingWaitTest : public ::testing::TestWithParam<MissingWait> {};

TEST_P(MissingWaitTest, IsFound) {
  expect_found(GetParam(), [](std::uint64_t seed) {
    return run_program(Pace::kByCalls, seed, GetParam().skips).well();
  });
}

INSTANTIATE_TEST_SUITE_P(StreamPrograms, MissingWaitTest, ::testing::ValuesIn(missing_waits()),
                         [](const auto& missing) { return std::string(missing.param.name); });

}  // namespace
}  // namespace spillway::runtime
