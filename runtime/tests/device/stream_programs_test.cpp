// SPDX-License-Identifier: Apache-2.0
// Random programs on a stand-in card that does as late and in as odd an order as it may.
// PROGRAM_SEED is where they start; a failure prints the seed of its program.
//
// What is compared are the bytes that kernels read, and what the card complains of: work where
// nothing is mapped, unmapping under work. That the programs would find a wait that is missing is
// shown by taking each away, one at a time (ForgetfulDriver): the table below.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "device_program.hpp"
#include "forgetful_driver.hpp"
#include "spillway/runtime/device/device_watcher.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {
namespace {

using spillway::testing::Pace;
using spillway::testing::ThreadDevice;

constexpr Bytes kGranule{DeviceProgram::kGranule};
constexpr std::size_t kStreams = 3;

// Streams count from 1 in the order in which they are made: those of the program, then OUT, IN and
// IN-URGENT.
constexpr std::uintptr_t kOut = kStreams + 1;
constexpr std::uintptr_t kIn = kStreams + 2;
constexpr std::uintptr_t kUrgent = kStreams + 3;
bool of_program(std::uintptr_t stream) { return stream >= 1 && stream <= kStreams; }

std::uint64_t first_seed() {
  const char* const seed = std::getenv("PROGRAM_SEED");
  return seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
}

/// A card with all that belongs to it, too small for what a program has.
struct Machine {
  Machine(Pace pace, std::uint64_t seed, ForgetfulDriver::Forgets forgets)
      : device({.memory = kGranule * 14, .pace = pace, .seed = seed, .longest_delay_us = 300}),
        driver(device, std::move(forgets)) {
    for (DeviceStream& stream : streams) {
      expect_done(device, device.create_stream(stream), "making a stream");
    }
    transfers.emplace(clock);
    residency.emplace(*pages, host, *transfers, clock);
  }

  ThreadDevice device;
  ForgetfulDriver driver;
  std::vector<DeviceStream> streams{kStreams};
  StreamClock clock{driver, {.ops = 4}};
  MemoryBudget budget{kGranule * 14};
  std::optional<VmmPages> pages{std::in_place, clock, budget, kMiB * 64};
  PinnedHostMemory host{clock, kGranule * 40, kGranule * 16};
  std::optional<StreamTransfers> transfers;
  std::optional<StreamResidency> residency;
  std::mutex lock;

  ProgramCard card() { return {device, *residency, budget, lock}; }
};

struct Outcome {
  std::uint64_t wrong = 0;
  std::string said;        // with a failure
  std::string complaints;  // of the card
  std::uint64_t kernels = 0;
  residency::Statistics moved;

  [[nodiscard]] bool well() const { return wrong == 0 && said.empty() && complaints.empty(); }
};

Outcome run_program(Pace pace, std::uint64_t seed, const ForgetfulDriver::Forgets& forgets = {},
                    const std::function<void(ThreadDevice&)>& spoil = {}) {
  Outcome outcome;
  Machine machine(pace, seed, forgets);
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
  outcome.moved = machine.residency->statistics();
  return outcome;
}

TEST(StreamPrograms, ComputeWhatTheyWouldOneAfterTheOther) {
  constexpr std::uint64_t kPrograms = 10'000;
  std::uint64_t kernels = 0;
  residency::Statistics moved;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + kPrograms; ++seed) {
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
  EXPECT_GT(kernels, 20 * kPrograms);
  EXPECT_GT(moved.evictions, kPrograms);
  EXPECT_GT(moved.clean_evictions, kPrograms / 4);
  EXPECT_GT(moved.rescued_evictions, kPrograms / 4);
  EXPECT_GT(moved.fetches, kPrograms);
  EXPECT_GT(moved.failed_copies, kPrograms / 10) << "those taken back";
  std::printf("%llu programs, %llu kernels, %llu evictions, %llu clean, %llu fetches\n",
              static_cast<unsigned long long>(kPrograms), static_cast<unsigned long long>(kernels),
              static_cast<unsigned long long>(moved.evictions),
              static_cast<unsigned long long>(moved.clean_evictions),
              static_cast<unsigned long long>(moved.fetches));
}

TEST(StreamPrograms, ComputeTheSameOnThreads) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 100; ++seed) {
    const Outcome outcome = run_program(Pace::kThreads, seed);
    ASSERT_TRUE(outcome.well()) << "PROGRAM_SEED=" << seed << ": " << outcome.wrong << " wrong; "
                                << outcome.said << outcome.complaints;
  }
}

/// Two programs on one card, each from a thread and on streams of its own, with a watcher beside
/// them that does nothing but look.
TEST(StreamPrograms, ShareACardFromSeveralThreads) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 10; ++seed) {
    Machine machine(Pace::kThreads, seed, {});
    DeviceWatcher watcher(
        machine.driver,
        [&] {
          const std::lock_guard lock(machine.lock);
          machine.residency->advance();
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
TEST(StreamPrograms, SurviveOrEndInWordsWhenACallFails) {
  std::uint64_t survived = 0;
  std::uint64_t ended = 0;
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 1'500; ++seed) {
    const auto call = static_cast<spillway::testing::DeviceCall>(
        seed % static_cast<std::uint64_t>(spillway::testing::DeviceCall::kCount_));
    const auto status = std::vector{ThreadDevice::kOutOfMemory, ThreadDevice::kInvalid,
                                    ThreadDevice::kNotPermitted}[seed / 7 % 3];
    const Outcome outcome = run_program(Pace::kByCalls, seed, {}, [&](ThreadDevice& device) {
      device.fail(call, 1 + static_cast<unsigned>(seed % 13), status);
    });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_EQ(outcome.complaints, "") << "PROGRAM_SEED=" << seed;
    if (!outcome.said.empty()) {
      ASSERT_NE(outcome.said.find("stand-in card failed while"), std::string::npos)
          << "PROGRAM_SEED=" << seed << ": " << outcome.said;
    }
    ++(outcome.said.empty() ? survived : ended);
  }
  EXPECT_GT(survived, 100U);
  EXPECT_GT(ended, 100U);
}

TEST(StreamPrograms, EndInWordsWhenTheDeviceIsLost) {
  for (std::uint64_t seed = first_seed(); seed < first_seed() + 200; ++seed) {
    const Outcome outcome = run_program(Pace::kByCalls, seed, {}, [&](ThreadDevice& device) {
      device.fail(spillway::testing::DeviceCall::kRecord, 1 + static_cast<unsigned>(seed % 3),
                  ThreadDevice::kLost, true);
    });
    ASSERT_EQ(outcome.wrong, 0U) << "PROGRAM_SEED=" << seed;
    ASSERT_NE(outcome.said.find("start it again"), std::string::npos) << outcome.said;
  }
}

struct Mutation {
  const char* name;
  ForgetfulDriver::Forgets forgets;
};

void PrintTo(const Mutation& mutation, std::ostream* out) { *out << mutation.name; }

class MissingWait : public ::testing::TestWithParam<Mutation> {};

TEST_P(MissingWait, IsFound) {
  constexpr std::uint64_t kPrograms = 10'000;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    if (!run_program(Pace::kByCalls, seed, GetParam().forgets).well()) {
      std::printf("found by program %llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
  FAIL() << kPrograms << " programs did not need: " << GetParam().name;
}

INSTANTIATE_TEST_SUITE_P(
    StreamPrograms, MissingWait,
    ::testing::Values(Mutation{"EvictionForUses",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && wait.waiter == kOut &&
                                        of_program(wait.awaited);
                               }},
                      Mutation{"EvictionForUsesOfEachStream",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && wait.waiter == kOut &&
                                        wait.awaited == 1;
                               }},
                      Mutation{"UseForPrefetch",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && of_program(wait.waiter) &&
                                        wait.awaited == kIn;
                               }},
                      Mutation{"UseForPrefetchOnEachStream",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && wait.waiter == 2 &&
                                        wait.awaited == kIn;
                               }},
                      Mutation{"UseForFetch",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && of_program(wait.waiter) &&
                                        wait.awaited == kUrgent;
                               }},
                      Mutation{"ReuseOfABlockOnAnotherStream",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kStream && of_program(wait.waiter) &&
                                        of_program(wait.awaited);
                               }},
                      Mutation{"EndOfAnEvictionOnTheHost",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kHost && wait.awaited == kOut;
                               }},
                      Mutation{"UnmappingAfterUsesOnTheHost",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kHost && of_program(wait.awaited);
                               }},
                      Mutation{"UnmappingAndHostMemoryAfterPrefetchOnTheHost",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kHost && wait.awaited == kIn;
                               }},
                      Mutation{"UnmappingAndHostMemoryAfterFetchOnTheHost",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kHost && wait.awaited == kUrgent;
                               }},
                      Mutation{"RecordBeforeWaitOfAFetch",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kRecord && wait.awaited == kUrgent;
                               }},
                      Mutation{"RecordBeforeWaitOfAUse",
                               [](const Wait& wait) {
                                 return wait.kind == WaitKind::kRecord && of_program(wait.awaited);
                               }}),
    [](const auto& mutation) { return std::string(mutation.param.name); });

}  // namespace
}  // namespace spillway::runtime
