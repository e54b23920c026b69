// SPDX-License-Identifier: Apache-2.0
// Random plans for random steps, run three times over: in the simulator, by the runtime's driver on
// a virtual clock, and on the naive reference, written from the tables in docs/residency.md.
//
//     plan, step --> simulator --- event, virtual time ---> the runtime's mover, its transfers
//     faked
//                        |                 |                          |
//                    transition    reference: transition          transition
//
// The simulator's clock is the only one: what it does to a storage, an op's use, a plan's action or
// a copy's end, happens at that time to the mover as well. All three must make the same transition
// of every event: the same actions in the same order, the same state and the same copies after it,
// the same bytes on every tier.
//
// Which events there must be is known from the step itself: when the simulator runs an op, the op
// reads, pins, writes and frees real bytes on the driver's side. What the simulator did not
// announce is then found out, by a storage that is away or leaves, or holds other bytes than were
// written. DRIVER_SEED=n repeats one plan, DRIVER_PLANS=n runs so many. What fails is shrunk and
// printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plan_case.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/residency_reference.hpp"
#include "spillway/testing/shrink.hpp"
#include "transition.hpp"
#include "virtual_driver.hpp"

namespace spillway::testing {
namespace {

using residency::Event;
using residency::EventKind;
using residency::in_flight;
using residency::ResidencyState;

constexpr std::uint32_t kPlans = 300;

/// The state in which a storage was met, and by what. Nothing for a state: it died in flight.
using Coverage = std::set<std::pair<std::optional<ResidencyState>, EventKind>>;

/// Repeats on the reference and on the driver what the simulator does, up to the first difference.
class ThreeWay final : public planning::SimulationObserver {
 public:
  ThreeWay(const Trace& trace, Mutation mutation, Coverage* coverage)
      : trace_(trace), reference_(mutation), coverage_(coverage) {}

  void on_create(StorageId machine_id, StorageId storage, Bytes bytes) override {
    if (difference_) return;
    if (!reference_.create(machine_id, bytes)) return differ(machine_id, "an id is given twice");
    driver_.create(machine_id, bytes);
    rows_[machine_id] = storage;
    ids_[storage] = machine_id;
  }

  void on_event(const residency::ResidencyMachine& machine, const Event& event, TimeNs now,
                std::span<const residency::Action> actions) override {
    if (difference_) return;
    now_ = now;
    const Transition simulated = transition_of(machine, event, event.id, actions);
    happen(event, &simulated);
  }

  void on_op_begin(OpIndex op) override {
    if (difference_) return;
    for (const StorageLists* list : {&trace_.ops.reads, &trace_.ops.writes}) {
      for (const StorageId row : (*list)[op]) {
        const StorageId id = ids_.at(row);
        if (!driver_.is_here(id)) return differ(id, "an op uses it, and it is not here");
        if (const auto flaw = driver_.flaw_of(id)) return differ(id, *flaw);
        driver_.pin(id);
      }
    }
    for (const StorageId row : trace_.ops.writes[op]) driver_.write(ids_.at(row));
  }

  void on_op_end(OpIndex op) override {
    if (difference_) return;
    for (const StorageLists* list : {&trace_.ops.reads, &trace_.ops.writes}) {
      for (const StorageId row : (*list)[op]) driver_.unpin(ids_.at(row));
    }
    for (const StorageId row : trace_.ops.frees[op]) {
      if (driver_.is_here(ids_.at(row))) differ(ids_.at(row), "an op freed it, and it is here");
    }
    if (to_value(op) + 1 == trace_.ops.size()) go_on();
  }

  /// Ends what is under way and lets all storages die, on the reference and the driver.
  void finish() {
    for (const StorageId id : reference_.live()) {
      while (!difference_ && reference_.contains(id) && in_flight(reference_.state(id))) {
        happen({EventKind::kCopyCompleted, id}, nullptr);
      }
      if (!difference_ && reference_.contains(id)) happen({EventKind::kDie, id}, nullptr);
    }
    if (difference_) return;
    if (const auto leak = driver_.leak()) difference_ = "in the end the driver holds " + *leak;
  }

  [[nodiscard]] const std::optional<std::string>& difference() const { return difference_; }

 private:
  void happen(const Event& event, const Transition* simulated) {
    if (!reference_.contains(event.id)) return differ(event.id, "the reference knows no such id");
    const ResidencyState before = reference_.state(event.id);
    note(event, before);
    const auto actions = reference_.on(event);
    if (!actions) {
      return differ(event.id,
                    fmt::format("the reference refuses {} in {}", residency::to_string(event.kind),
                                residency::to_string(before)));
    }
    const Transition wanted = transition_of(reference_, event, event.id, *actions);
    if (simulated != nullptr && *simulated != wanted) {
      return differ(event.id, "simulator", to_string(*simulated), wanted);
    }
    drive(event, before, wanted);
  }

  void drive(const Event& event, ResidencyState before, const Transition& wanted) {
    std::vector<Transition> made;
    try {
      made = driver_.make(event);
    } catch (const std::exception& error) {
      return differ(event.id, "driver", error.what(), wanted);
    }
    // The driver may keep from its machine what changes nothing.
    const bool nothing = wanted.actions.empty() && wanted.state == before && !in_flight(before);
    if (made.size() != 1 || made.front() != wanted) {
      if (!(made.empty() && nothing)) {
        std::string text = made.empty() ? "no transition" : "";
        for (const Transition& transition : made) text += "[" + to_string(transition) + "]";
        return differ(event.id, "driver", text, wanted);
      }
    }
    if (driver_.state(event.id) != wanted.state) {
      return differ(event.id, "what ops look at is not the driver's state");
    }
    if (const auto flaw = driver_.flaw_of(event.id)) differ(event.id, "driver: " + *flaw);
  }

  void note(const Event& event, ResidencyState before) {
    const bool dying = dying_.contains(event.id);
    if (event.kind == EventKind::kDie && in_flight(before)) dying_.insert(event.id);
    if (coverage_ == nullptr) return;
    coverage_->emplace(dying ? std::nullopt : std::optional(before), event.kind);
  }

  void differ(StorageId id, std::string_view side, std::string_view made,
              const Transition& wanted) {
    differ(id, fmt::format("{} {}\n    reference {}", side, made, to_string(wanted)));
  }
  void differ(StorageId id, std::string_view what) {
    const auto row = rows_.find(id);
    difference_ = fmt::format("at {} ns, storage {}: {}", now_,
                              row == rows_.end() ? to_value(id) : to_value(row->second), what);
  }

  // The step is over: some of what is left is another row in the next.
  void go_on() {
    std::map<StorageId, StorageId> moved;
    for (std::size_t i = 0; i < trace_.storages.size(); ++i) {
      const StorageId next = trace_.storages.continues[i];
      if (next != kNoStorage) moved[next] = ids_.at(StorageId{i});
    }
    for (const auto& [row, id] : moved) rows_[ids_[row] = id] = row;
  }

  const Trace& trace_;
  ResidencyReference reference_;
  VirtualDriver driver_;
  Coverage* coverage_;
  std::map<StorageId, StorageId> rows_;  // of the trace, by id
  std::map<StorageId, StorageId> ids_;   // by row
  std::set<StorageId> dying_;
  std::optional<std::string> difference_;
  TimeNs now_ = 0;
};

std::optional<std::string> compare(const PlanCase& given, Mutation mutation = Mutation::kNone,
                                   Coverage* coverage = nullptr) {
  ThreeWay sides(given.trace, mutation, coverage);
  const auto outcome = planning::simulate({given.trace, given.machine, given.budgets}, given.plan,
                                          {.steps = given.steps, .observer = &sides});
  sides.finish();
  if (sides.difference()) return sides.difference();
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
    return "the simulator cannot carry out what the validator accepts: " + failure->reason;
  }
  return std::nullopt;
}

PlanCase shrunken(const PlanCase& failing, Mutation mutation) {
  return shrink(failing, [&](const PlanCase& smaller) { return compare(smaller, mutation); });
}

/// The events of storages in the states that plans lead to.
std::vector<std::pair<ResidencyState, EventKind>> met_by_plans() {
  using enum EventKind;
  const std::vector<std::pair<ResidencyState, std::vector<EventKind>>> met{
      {ResidencyState::kResident, {kUse, kWrite, kEvict, kDrop, kDie}},
      {ResidencyState::kEvicting, {kUse, kWrite, kEvict, kCopyCompleted, kDie}},
      {ResidencyState::kOnHost, {kUse, kWrite, kEvict, kDie}},
      {ResidencyState::kDemoting, {kEvict, kCopyCompleted, kDie}},
      {ResidencyState::kOnDisk, {kUse, kWrite, kDie}},
      {ResidencyState::kFetching, {kUse, kWrite, kEvict, kCopyCompleted, kDie}},
      {ResidencyState::kDropped, {kUse, kDie}},
  };
  std::vector<std::pair<ResidencyState, EventKind>> pairs;
  for (const auto& [state, kinds] : met) {
    for (const EventKind kind : kinds) pairs.emplace_back(state, kind);
  }
  return pairs;
}

TEST(DriverPropertyTest, SimulatorDriverAndReferenceMakeTheSameTransitionsOfRandomPlans) {
  const auto given = stated_number("DRIVER_SEED");
  const std::uint32_t first = given.value_or(std::random_device{}());
  const std::uint32_t plans = given ? 1 : stated_number("DRIVER_PLANS").value_or(kPlans);
  std::cout << "DRIVER_SEED=" << first << '\n';
  Coverage coverage;
  for (std::uint32_t plan = 0; plan < plans; ++plan) {
    const PlanCase made = random_plan_case(first + plan);
    const auto difference = compare(made, Mutation::kNone, &coverage);
    ASSERT_FALSE(difference) << "DRIVER_SEED=" << first + plan << ": " << *difference
                             << "\nshrunk:\n"
                             << describe(shrunken(made, Mutation::kNone));
  }
  if (given) return;
  for (const auto& met : met_by_plans()) {
    EXPECT_TRUE(coverage.contains(met))
        << residency::to_string(met.first) << " never met " << residency::to_string(met.second);
  }
}

TEST(DriverPropertyTest, SeedsThatOnceFailed) {
  // The simulator waited for ever for room, most often on a host that the plan just fits.
  constexpr std::array kSeeds{
      3296881424U, 1461590639U,  // fetched back on its way through the host to the disk
      350243137U,                // the same, and evicted again to the host
      655955615U,                // its copies forgotten while it was still being copied
      3744266967U,               // dropped in flight, and made again before its end
      3013434663U, 3387051833U,  // demoted while it waited to leave, and overtaken
      2992053228U,               // needed at once, but no longer first on its other link
      3664676601U,  // kept from coming in by the op that waits for its place on the host
      3924574211U,  // let in by the one ahead of it, which the validator did not see go
      652693946U,   // fetched while it waited to leave, it kept its room ahead of its turn
      2164387859U,  // kept from leaving by the op that waits for what its room lets in
      3140492648U,  // queued before another, it lost its turn to that when it made room
      3267646203U,  // overtaken by a recomputation, though an eviction waited for what it forgets
  };
  for (const std::uint32_t seed : kSeeds) {
    const auto difference = compare(random_plan_case(seed));
    EXPECT_FALSE(difference) << seed << ": " << *difference;
  }
}

// The comparison can fail: a rule broken on one side is found, and its case becomes small.
class BrokenRuleOfPlansTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(BrokenRuleOfPlansTest, IsFoundAndShrunk) {
  std::optional<PlanCase> failing;
  for (std::uint32_t seed = 1; seed <= kPlans && !failing; ++seed) {
    PlanCase made = random_plan_case(seed);
    if (compare(made, GetParam())) failing = std::move(made);
  }
  ASSERT_TRUE(failing) << "not noticed: " << to_string(GetParam());
  const PlanCase small = shrunken(*failing, GetParam());
  EXPECT_TRUE(compare(small, GetParam()));
  EXPECT_FALSE(compare(small)) << "the sides differ without the mutation";
  EXPECT_LE(small.trace.ops.size() + small.plan.actions.size(), 8U) << describe(small);
}

// The others need copies that fail, cancelled ones or exports: see ResidencyProperty.
INSTANTIATE_TEST_SUITE_P(
    Mutations, BrokenRuleOfPlansTest,
    ::testing::Values(Mutation::kReadDoesNotKeep, Mutation::kSpoiledCopyCounts,
                      Mutation::kEvictOverridesWrite, Mutation::kWriteKeepsCopies,
                      Mutation::kCleanEvictionCopies, Mutation::kDeathFreesAtOnce,
                      Mutation::kFetchDropsCopies, Mutation::kFetchIgnoresEvict,
                      Mutation::kFetchKeepsStaleCopies, Mutation::kDropKeepsSlowerCopies),
    [](const auto& tested) { return test_name(tested.param); });

}  // namespace
}  // namespace spillway::testing
