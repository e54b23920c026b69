// SPDX-License-Identifier: Apache-2.0
// The waits of the protocol, each taken away once: a program must find that it is missing.
//
// Streams count from 1 in the order in which they are made: those of the program, the tier's own,
// then OUT, IN and IN-URGENT.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <vector>

#include "skipping_driver.hpp"

namespace spillway::runtime {

inline constexpr std::size_t kProgramStreams = 3;

struct MissingWait {
  const char* name;
  SkippingDriver::Skips skips;
};

inline std::ostream& operator<<(std::ostream& out, const MissingWait& missing) {
  return out << missing.name;
}

/// A program among the first 10,000 goes wrong without the wait. `is_well`: whether that of a seed
/// does not.
template <typename IsWell>
void expect_found(const MissingWait& missing, const IsWell& is_well) {
  constexpr std::uint64_t kPrograms = 10'000;
  for (std::uint64_t seed = 1; seed <= kPrograms; ++seed) {
    if (!is_well(seed)) {
      std::printf("found by program %llu\n", static_cast<unsigned long long>(seed));
      return;
    }
  }
  FAIL() << kPrograms << " programs did not need: " << missing;
}

inline std::vector<MissingWait> missing_waits() {
  static constexpr std::uintptr_t kOut = kProgramStreams + 2;
  static constexpr std::uintptr_t kIn = kProgramStreams + 3;
  static constexpr std::uintptr_t kUrgent = kProgramStreams + 4;
  static constexpr auto kOfProgram = [](std::uintptr_t stream) {
    return stream >= 1 && stream <= kProgramStreams;
  };
  return {
      {"EvictionForUses",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && wait.waiter == kOut && kOfProgram(wait.awaited);
       }},
      {"EvictionForUsesOfEachStream",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && wait.waiter == kOut && wait.awaited == 1;
       }},
      {"UseForPrefetch",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && kOfProgram(wait.waiter) && wait.awaited == kIn;
       }},
      {"UseForPrefetchOnEachStream",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && wait.waiter == 2 && wait.awaited == kIn;
       }},
      {"UseForFetch",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && kOfProgram(wait.waiter) &&
                wait.awaited == kUrgent;
       }},
      {"ReuseOfABlockOnAnotherStream",
       [](const Wait& wait) {
         return wait.kind == WaitKind::kStream && kOfProgram(wait.waiter) &&
                kOfProgram(wait.awaited);
       }},
      {"EndOfAnEvictionOnTheHost",
       [](const Wait& wait) { return wait.kind == WaitKind::kHost && wait.awaited == kOut; }},
      {"UnmappingAfterUsesOnTheHost",
       [](const Wait& wait) { return wait.kind == WaitKind::kHost && kOfProgram(wait.awaited); }},
      {"UnmappingAndHostMemoryAfterPrefetchOnTheHost",
       [](const Wait& wait) { return wait.kind == WaitKind::kHost && wait.awaited == kIn; }},
      {"UnmappingAndHostMemoryAfterFetchOnTheHost",
       [](const Wait& wait) { return wait.kind == WaitKind::kHost && wait.awaited == kUrgent; }},
      {"RecordBeforeWaitOfAFetch",
       [](const Wait& wait) { return wait.kind == WaitKind::kRecord && wait.awaited == kUrgent; }},
      {"RecordBeforeWaitOfAUse",
       [](const Wait& wait) { return wait.kind == WaitKind::kRecord && kOfProgram(wait.awaited); }},
  };
}

}  // namespace spillway::runtime
