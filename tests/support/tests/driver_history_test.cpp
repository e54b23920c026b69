// SPDX-License-Identifier: Apache-2.0
// Random histories of the runtime's driver against the naive reference of the state machine, with
// what no plan leads to: copies that fail, copies that are taken back, exports, a host that is
// full.
//
// Whatever the driver tells its residency machine is told to the reference too, which must make the
// same transition; and bytes are where the driver's state says. HISTORY_SEED=n repeats one history.
// A failing case is shrunk and printed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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
using Call = VirtualDriver::Call;

constexpr std::uint32_t kHistories = 200;
constexpr std::size_t kActs = 300;
constexpr Bytes kHost = kKiB * 24;  // six storages

struct Act {
  std::size_t storage = 0;                               // by order of creation
  std::variant<std::monostate, EventKind, Call> what{};  // nothing: it is made
  Tier tier = Tier::kDevice;
};
using History = std::vector<Act>;

std::string describe(const Act& act) {
  if (const auto* event = std::get_if<EventKind>(&act.what)) {
    return fmt::format("{} {} ({})", residency::to_string(*event), act.storage,
                       to_string(act.tier));
  }
  constexpr std::array<const char*, 3> kCalls{"evict", "write_behind", "cancel_ahead"};
  const auto* call = std::get_if<Call>(&act.what);
  return fmt::format("{} {}", call ? kCalls[static_cast<std::size_t>(*call)] : "create",
                     act.storage);
}

class Sides {
 public:
  /// The difference after `act`, if any. An act that can't be is left out.
  std::optional<std::string> apply(const Act& act) {
    const StorageId id{act.storage + 1};
    if (std::holds_alternative<std::monostate>(act.what)) {
      driver_.create(id, kKiB * 3);
      if (!reference_.create(id, kKiB * 3)) return "made twice";
      made_.insert(act.storage);
      return std::nullopt;
    }
    if (!can_be(act)) return std::nullopt;
    std::vector<Transition> made;
    try {
      const auto* event = std::get_if<EventKind>(&act.what);
      made = event ? driver_.make(Event{*event, id, act.tier})
                   : driver_.make(std::get<Call>(act.what), id);
    } catch (const std::exception& error) {
      return std::string("the driver breaks the contract: ") + error.what();
    }
    if (act.what == decltype(act.what){EventKind::kDie}) dead_.insert(act.storage);
    if (auto difference = compare(id, made)) return difference;
    if (act.what == decltype(act.what){EventKind::kWrite} && driver_.is_here(id)) driver_.write(id);
    return std::nullopt;
  }

  [[nodiscard]] std::optional<ResidencyState> state(std::size_t storage) const {
    if (!made_.contains(storage)) return std::nullopt;
    return driver_.state(StorageId{storage + 1});
  }
  [[nodiscard]] bool is_dead(std::size_t storage) const { return dead_.contains(storage); }
  [[nodiscard]] const std::set<EventKind>& seen() const { return seen_; }

  /// Everything ends and dies.
  std::optional<std::string> finish() {
    for (const std::size_t storage : made_) {
      for (auto where = state(storage); where; where = state(storage)) {
        const bool flies = in_flight(*where);
        auto difference =
            apply({storage, flies ? EventKind::kCopyCompleted : EventKind::kDie, Tier::kDevice});
        if (difference) return difference;
      }
    }
    const auto leak = driver_.leak();
    return leak ? std::optional("in the end the driver holds " + *leak) : std::nullopt;
  }

 private:
  [[nodiscard]] bool can_be(const Act& act) const {
    const auto where = state(act.storage);
    if (!where) return false;
    const auto* event = std::get_if<EventKind>(&act.what);
    const bool ends =
        event && (*event == EventKind::kCopyCompleted || *event == EventKind::kCopyFailed);
    if (ends) return in_flight(*where);
    if (is_dead(act.storage)) return false;
    const bool here = *where == ResidencyState::kResident || *where == ResidencyState::kEvicting;
    return !event || *event != EventKind::kExempt || here;
  }

  std::optional<std::string> compare(StorageId id, const std::vector<Transition>& made) {
    for (const Transition& transition : made) {
      seen_.insert(transition.event);
      const Event event{transition.event, transition.storage, transition.tier};
      const auto actions = reference_.on(event);
      if (!actions) return "the reference refuses " + to_string(transition);
      const Transition wanted = transition_of(reference_, event, event.id, *actions);
      if (wanted != transition) {
        return fmt::format("driver {}\n  reference {}", to_string(transition), to_string(wanted));
      }
    }
    const bool alive = reference_.contains(id);
    if (driver_.state(id) != (alive ? std::optional(reference_.state(id)) : std::nullopt)) {
      return "what ops look at is not the state";
    }
    return driver_.flaw_of(id);
  }

  VirtualDriver driver_{kHost};
  ResidencyReference reference_;
  std::set<std::size_t> made_;
  std::set<std::size_t> dead_;
  std::set<EventKind> seen_;
};

Act random_act(std::mt19937& random, const Sides& sides, std::size_t& made) {
  std::vector<std::size_t> live;
  for (std::size_t i = 0; i < made; ++i) {
    if (sides.state(i)) live.push_back(i);
  }
  if (live.size() < 4 || (live.size() < 16 && random() % 20 == 0)) return {made++};
  Act act{.storage = live[random() % live.size()]};
  const bool flies = in_flight(*sides.state(act.storage));
  // Use, Write, Evict, Drop, Exempt, Readmit, CopyCompleted, CopyFailed, Cancel, Die
  std::discrete_distribution<int> settled{14, 10, 20, 2, 1, 0, 0, 0, 0, 2};
  std::discrete_distribution<int> flying{8, 5, 8, 1, 1, 0, 24, 8, 0, 2};
  constexpr unsigned kCallPercent = 25;
  if (random() % 100 < kCallPercent) {
    act.what = static_cast<Call>(random() % 3);
    return act;
  }
  act.what = static_cast<EventKind>(flies ? flying(random) : settled(random));
  if (std::get<EventKind>(act.what) == EventKind::kEvict) {
    act.tier = random() % 2 == 0 ? Tier::kHost : Tier::kDisk;
  }
  return act;
}

struct Failure {
  History history;
  std::string difference;
};

std::optional<Failure> run_random(std::uint32_t seed, std::set<EventKind>& seen) {
  std::mt19937 random(seed);
  Sides sides;
  History history;
  std::size_t made = 0;
  for (std::size_t i = 0; i < kActs; ++i) {
    history.push_back(random_act(random, sides, made));
    if (auto difference = sides.apply(history.back())) return Failure{history, *difference};
  }
  if (auto difference = sides.finish()) return Failure{history, *difference};
  seen.insert(sides.seen().begin(), sides.seen().end());
  return std::nullopt;
}

std::optional<Failure> recompute(const History& history) {
  Sides sides;
  for (const Act& act : history) {
    if (auto difference = sides.apply(act)) return Failure{history, *difference};
  }
  if (auto difference = sides.finish()) return Failure{history, *difference};
  return std::nullopt;
}

std::string described_shrunken(const Failure& found) {
  const Failure failure = shrunken(found, &Failure::history, recompute);
  std::string text;
  for (const Act& act : failure.history) text += "  " + describe(act) + "\n";
  return text + "  " + failure.difference;
}

TEST(DriverHistoryTest, TheDriverKeepsToTheReferenceWhateverFailsOrIsTakenBack) {
  std::set<EventKind> seen;
  const auto given = stated_number("HISTORY_SEED");
  const std::uint32_t first = given.value_or(std::random_device{}());
  for (std::uint32_t i = 0; i < (given ? 1 : kHistories); ++i) {
    const auto failure = run_random(first + i, seen);
    ASSERT_FALSE(failure) << "HISTORY_SEED=" << first + i << ": " << failure->difference
                          << "\nshrunk:\n"
                          << described_shrunken(*failure);
  }
  if (given) return;
  for (const EventKind kind :
       {EventKind::kUse, EventKind::kWrite, EventKind::kEvict, EventKind::kDrop, EventKind::kExempt,
        EventKind::kCopyCompleted, EventKind::kCopyFailed, EventKind::kCancel, EventKind::kDie}) {
    EXPECT_TRUE(seen.contains(kind)) << residency::to_string(kind);
  }
}

}  // namespace
}  // namespace spillway::testing
