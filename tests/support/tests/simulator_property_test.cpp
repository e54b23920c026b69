// SPDX-License-Identifier: Apache-2.0
// Random plans: the validator, which takes no time, and the simulator, which does, must agree; and
// every transition that the simulator's residency machine makes must be the one that the naive
// reference, written from the table in docs/residency.md, makes. SIMULATOR_SEED=n repeats a run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "spillway/plan/validator.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/residency_reference.hpp"
#include "spillway/testing/shrink.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::testing {
namespace {

using planning::SimulationReport;

/// Repeats every event on the reference and compares what it does.
class Comparison final : public planning::SimulationObserver {
 public:
  void on_create(StorageId machine_id, StorageId /*storage*/, Bytes bytes) override {
    EXPECT_TRUE(reference_.create(machine_id, bytes));
  }
  void on_event(const residency::ResidencyMachine& /*machine*/, const residency::Event& event,
                TimeNs /*now*/, std::span<const residency::Action> actions) override {
    ++events_;
    kinds_[static_cast<std::size_t>(event.kind)] = true;
    const auto expected = reference_.on(event);
    ASSERT_TRUE(expected) << "the reference refuses " << residency::to_string(event.kind);
    ASSERT_TRUE(std::equal(actions.begin(), actions.end(), expected->begin(), expected->end()))
        << residency::to_string(event.kind);
  }
  [[nodiscard]] std::size_t events() const { return events_; }
  [[nodiscard]] bool saw(residency::EventKind kind) const {
    return kinds_[static_cast<std::size_t>(kind)];
  }

 private:
  ResidencyReference reference_;
  std::size_t events_ = 0;
  std::array<bool, 10> kinds_{};
};

Budgets budgets_with(Bytes device) { return {{device, kGiB, kGiB}}; }

/// About the least device budget within which the plan is right.
Budgets tight_budgets(const Plan& plan, const Trace& trace) {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  for (const Bytes bytes : trace.storages.bytes) high += bytes.count;
  for (const Bytes bytes : trace.ops.workspace) high += bytes.count;
  high *= 2;  // a recomputation makes again what is there as well
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (validate(plan, trace, budgets_with({middle})) ? low : high) = middle;
  }
  return budgets_with({high});
}

Machine random_machine(std::mt19937& random) {
  Machine machine = plain_machine();
  for (auto& link : machine.links) {
    link->bytes_per_second = 1e8 * static_cast<double>(1 + random() % 50);
    link->latency_ns = static_cast<TimeNs>(random() % 10);
  }
  return machine;
}

void expect_within_budgets(const SimulationReport& report, const Budgets& budgets) {
  Bytes most{};
  for (const planning::TimelineLevel& level : report.timeline.levels) {
    for (const Tier tier : kTiers) {
      ASSERT_LE(level.bytes[index_of(tier)], budgets[tier]) << to_string(tier);
    }
    const Bytes device = level.bytes[index_of(Tier::kDevice)];
    Bytes by_role{};
    for (const Bytes bytes : level.on_device) {
      ASSERT_LE(bytes, device);  // none below nothing
      by_role += bytes;
    }
    ASSERT_EQ(by_role, device);
    most = std::max(most, device);
  }
  ASSERT_EQ(most, report.peak[index_of(Tier::kDevice)].bytes);
  TimeNs stalls = 0;
  for (const TimeNs stall : report.stall_ns) stalls += stall;
  ASSERT_EQ(report.step_ns, report.compute_ns + stalls);
}

std::uint32_t seed() { return stated_number("SIMULATOR_SEED").value_or(std::random_device{}()); }

/// 300 plans; `kinds` learns which kinds of event they led to.
void check_rounds(std::uint32_t first, std::array<bool, 10>& kinds) {
  for (std::uint32_t round = 0; round < 300; ++round) {
    SCOPED_TRACE(fmt::format("SIMULATOR_SEED={} round {}", first, round));
    std::mt19937 random(first + round);
    const Trace trace = random_step(random, 5 + random() % 40);
    ASSERT_EQ(spillway::validate(trace), std::nullopt);
    const Plan plan = random_plan(random, trace, {.disk = round % 2 == 0});
    const auto flaw = validate(plan, trace, budgets_with({kGiB}));
    ASSERT_FALSE(flaw) << flaw->text;
    const Budgets budgets = tight_budgets(plan, trace);
    ASSERT_FALSE(validate(plan, trace, budgets));
    const Machine machine = random_machine(random);
    Comparison comparison;
    const auto outcome = planning::simulate(
        {trace, machine, budgets}, plan, {.steps = 3, .timeline = true, .observer = &comparison});
    const auto* failure = std::get_if<planning::SimulationFailure>(&outcome);
    ASSERT_EQ(failure, nullptr) << "op " << to_value(failure->op) << ": " << failure->reason;
    expect_within_budgets(std::get<SimulationReport>(outcome), budgets);
    ASSERT_GT(comparison.events(), trace.ops.size());
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      kinds[kind] = kinds[kind] || comparison.saw(static_cast<residency::EventKind>(kind));
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(SimulatorPropertyTest, WhatTheValidatorAcceptsRunsWithinItsBudgetsLikeTheReference) {
  const std::uint32_t first = seed();
  std::cout << "SIMULATOR_SEED=" << first << '\n';
  std::array<bool, 10> kinds{};
  check_rounds(first, kinds);
  if (HasFatalFailure()) return;
  for (const auto kind : {residency::EventKind::kUse, residency::EventKind::kWrite,
                          residency::EventKind::kEvict, residency::EventKind::kDrop,
                          residency::EventKind::kCopyCompleted, residency::EventKind::kDie}) {
    EXPECT_TRUE(kinds[static_cast<std::size_t>(kind)]) << residency::to_string(kind);
  }
}

TEST(SimulatorPropertyTest, SeedsThatOnceFailed) {
  constexpr std::array kSeeds{
      1196933105U,  // round 194: a fetch took room that an op was about to fill
      15300U,       // round 142: a second leg behind a copy that waited for what it held
      33000U,  // round 224: a recomputation of what is there needed more than all storages together
  };
  std::array<bool, 10> kinds{};
  for (const std::uint32_t first : kSeeds) check_rounds(first, kinds);
}

TEST(SimulatorPropertyTest, FasterLinksOfSteadyPlansNeverEndInFailure) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const Trace trace = random_step(random, 30);
    const Plan plan = random_plan(random, trace, {});
    const Budgets budgets = tight_budgets(plan, trace);
    for (const double rate : {1e7, 1e9, 1e12}) {
      Machine machine = plain_machine();
      for (auto& link : machine.links) link->bytes_per_second = rate;
      const auto outcome = planning::simulate({trace, machine, budgets}, plan);
      ASSERT_TRUE(std::holds_alternative<SimulationReport>(outcome)) << round << " " << rate;
    }
  }
}

}  // namespace
}  // namespace spillway::testing
