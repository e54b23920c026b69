// SPDX-License-Identifier: Apache-2.0
// The residency machine against a naive reference, on random and on all short histories.
//
// After each event the two must agree on the actions, or on refusing, on the states and copies of
// the storages, on the bytes used in every tier, and on the statistics, which are tallied here from
// the outside. RESIDENCY_SEED=n repeats one random program.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/testing/residency_reference.hpp"
#include "spillway/testing/shrink.hpp"

namespace spillway::testing {
namespace {

using residency::Action;
using residency::ActionKind;
using residency::Event;
using residency::EventKind;
using residency::ResidencyMachine;
using residency::ResidencyState;
using residency::Statistics;

constexpr std::size_t kPrograms = 40;
constexpr std::size_t kStepsPerProgram = 6000;
static_assert(kPrograms * kStepsPerProgram >= 200'000);

// Storages are named by the order of their creation, so that a step means the same after others
// were removed from the program.
struct Step {
  bool create;
  std::size_t storage;
  EventKind kind;
  Tier tier;
  Bytes bytes;
};
using Program = std::vector<Step>;

std::string describe(const Step& step) {
  if (step.create) return fmt::format("create s{} of {} bytes", step.storage, step.bytes.count);
  std::string text = fmt::format("{} s{}", residency::to_string(step.kind), step.storage);
  if (step.kind == EventKind::kEvict) text += fmt::format(" to {}", to_string(step.tier));
  return text;
}

std::string describe(const std::optional<std::vector<Action>>& actions) {
  if (!actions.has_value()) return "refused";
  std::string text = "[";
  for (const Action& a : *actions) {
    text += fmt::format(" {}({}>{}, {:#x}, {})", residency::to_string(a.kind), to_string(a.from),
                        to_string(a.to), to_value(a.id), a.bytes.count);
  }
  return text + " ]";
}

// Rows of the tables: a state, or one of two that are not states.
constexpr int kDyingRow = 8;
constexpr int kGoneRow = 9;
constexpr int kRows = 10;
constexpr int kEventKinds = 10;
using Coverage = std::set<std::pair<int, int>>;

// Statistics as an onlooker counts them.
class Tally {
 public:
  void count(const Event& event, ResidencyState before, bool dying, bool gone, ResidencyState after,
             const std::vector<Action>& actions, TimeNs now) {
    const bool completed = event.kind == EventKind::kCopyCompleted;
    if (completed || event.kind == EventKind::kCopyFailed) {
      seen_.copying_ns += now - started_.at(event.id);
      if (!completed) ++seen_.failed_copies;
    }
    const bool revoked = std::any_of(actions.begin(), actions.end(),
                                     [](const Action& a) { return a.kind == ActionKind::kRevoke; });
    if (event.kind == EventKind::kEvict && revoked) {
      ++seen_.clean_evictions;
      seen_.clean_evicted += actions.front().bytes;
    }
    if (completed && !dying && before == ResidencyState::kFetching && revoked) {
      ++seen_.unwanted_fetches;
    }
    const bool stayed = after == ResidencyState::kResident || after == ResidencyState::kExempt;
    if (completed && !gone && before == ResidencyState::kEvicting && stayed) {
      ++seen_.rescued_evictions;
    }
    for (const Action& action : actions) count_start(action, now);
  }
  void note_used(const ResidencyReference& reference) {
    for (const Tier tier : kTiers) {
      Bytes& peak = seen_.peak[index_of(tier)];
      peak = std::max(peak, reference.used(tier));
    }
  }
  [[nodiscard]] const Statistics& seen() const { return seen_; }

 private:
  void count_start(const Action& action, TimeNs now) {
    if (action.kind == ActionKind::kRecompute) ++seen_.recomputations;
    if (action.kind == ActionKind::kRecompute || action.kind == ActionKind::kStartCopy) {
      started_[action.id] = now;
    }
    if (action.kind != ActionKind::kStartCopy) return;
    if (action.from == Tier::kDevice) {
      ++seen_.evictions;
      seen_.evicted += action.bytes;
    } else if (action.to == Tier::kDevice) {
      ++seen_.fetches;
      seen_.fetched += action.bytes;
    } else {
      ++seen_.demotions;
      seen_.demoted += action.bytes;
    }
  }

  Statistics seen_;
  std::map<StorageId, TimeNs> started_;
};

// Both sides, fed with the same steps.
class Comparison {
 public:
  explicit Comparison(Mutation mutation) : reference_(mutation) {}

  /// The difference after `step`, if any.
  std::optional<std::string> apply(const Step& step, Coverage* coverage = nullptr) {
    now_ += 7;
    if (step.create) return create(step);
    const auto found = ids_.find(step.storage);
    if (found == ids_.end()) return std::nullopt;  // its creation was shrunk away
    const Event event{step.kind, found->second, step.tier};
    const bool alive = reference_.contains(event.id);
    const ResidencyState before = alive ? machine_.state(event.id) : ResidencyState::kDropped;
    const bool dying = dying_.contains(event.id);
    if (coverage != nullptr) {
      const int row = !alive ? kGoneRow : dying ? kDyingRow : static_cast<int>(before);
      coverage->insert({row, static_cast<int>(event.kind)});
    }
    const auto expected = reference_.on(event);
    const auto actual = machine_turn(event);
    if (expected != actual) {
      return fmt::format("machine {}\n  reference {}", describe(actual), describe(expected));
    }
    if (!starts_last(actual)) return "a copy is started before the last action";
    if (auto difference = compare_storage(event.id)) return difference;
    const bool gone = !reference_.contains(event.id);
    if (event.kind == EventKind::kDie && alive && !gone) dying_.insert(event.id);
    if (actual.has_value()) {
      tally_.count(event, before, dying, gone, gone ? before : machine_.state(event.id), *actual,
                   now_);
    }
    return compare_totals();
  }

  /// Storages that no recent event touched.
  std::optional<std::string> compare_all() {
    for (const auto& [storage, id] : ids_) {
      if (auto difference = compare_storage(id)) return difference;
    }
    if (machine_.live() != reference_.live().size()) return "number of live storages";
    return std::nullopt;
  }

  [[nodiscard]] std::optional<ResidencyState> state(std::size_t storage) const {
    const auto found = ids_.find(storage);
    if (found == ids_.end() || !machine_.contains(found->second)) return std::nullopt;
    return machine_.state(found->second);
  }

 private:
  std::optional<std::string> create(const Step& step) {
    const StorageId id = machine_.create(step.bytes);
    if (!reference_.create(id, step.bytes)) return fmt::format("id {:#x} again", to_value(id));
    ids_[step.storage] = id;
    if (machine_.size(id) != step.bytes) return "size";
    if (auto difference = compare_storage(id)) return difference;
    return compare_totals();
  }

  std::optional<std::vector<Action>> machine_turn(const Event& event) {
    std::vector<Action> actions;
    try {
      machine_.on(event, now_, actions);
    } catch (const InternalError&) {
      return std::nullopt;
    }
    return actions;
  }

  static bool starts_last(const std::optional<std::vector<Action>>& actions) {
    if (!actions.has_value() || actions->empty()) return true;
    return std::none_of(actions->begin(), actions->end() - 1, [](const Action& a) {
      return a.kind == ActionKind::kStartCopy || a.kind == ActionKind::kRecompute;
    });
  }

  std::optional<std::string> compare_storage(StorageId id) const {
    if (machine_.contains(id) != reference_.contains(id)) return "contains";
    if (!reference_.contains(id)) return std::nullopt;
    if (machine_.state(id) != reference_.state(id)) {
      return fmt::format("machine {}, reference {}", residency::to_string(machine_.state(id)),
                         residency::to_string(reference_.state(id)));
    }
    for (const Tier tier : kTiers) {
      if (machine_.has_copy(id, tier) != reference_.has_copy(id, tier)) {
        return fmt::format("copy on {}", to_string(tier));
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> compare_totals() {
    tally_.note_used(reference_);
    for (const Tier tier : kTiers) {
      if (machine_.used(tier) != reference_.used(tier)) {
        return fmt::format("used on {}: machine {}, reference {}", to_string(tier),
                           machine_.used(tier).count, reference_.used(tier).count);
      }
    }
    if (machine_.statistics() != tally_.seen()) return "statistics";
    return std::nullopt;
  }

  ResidencyMachine machine_;
  ResidencyReference reference_;
  Tally tally_;
  std::map<std::size_t, StorageId> ids_;
  std::set<StorageId> dying_;
  TimeNs now_ = 0;
};

// Random steps that keep about two dozen storages busy in all states.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

  Step next(const Comparison& sides) {
    std::erase_if(live_, [&](std::size_t s) { return !sides.state(s).has_value(); });
    if (live_.size() < 4 || (live_.size() < 24 && below(30) == 0)) {
      live_.push_back(created_);
      return {true, created_++, {}, {}, Bytes{below(5) == 0 ? 0 : 1 + below(1000)}};
    }
    const bool any = below(40) == 0;  // dead ones included
    const std::size_t storage = any ? below(created_) : live_[below(live_.size())];
    const EventKind kind = pick(sides.state(storage));
    Tier tier = Tier::kDevice;
    if (kind == EventKind::kEvict && below(60) != 0) {
      tier = below(2) == 0 ? Tier::kHost : Tier::kDisk;
    }
    return {false, storage, kind, tier, {}};
  }

 private:
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  EventKind pick(std::optional<ResidencyState> state) {
    const bool flies = state && residency::in_flight(*state);
    const bool exempt = state == ResidencyState::kExempt;
    // Use, Write, Evict, Drop, Exempt, Readmit, CopyCompleted, CopyFailed, Cancel, Die
    std::discrete_distribution<int> settled{14, 8, 40, 4, 3, 4, 1, 1, 2, 2};
    std::discrete_distribution<int> flying{14, 8, 14, 3, 4, 4, 26, 9, 9, 2};
    std::discrete_distribution<int> exempted{2, 2, 2, 2, 2, 9, 1, 1, 2, 1};
    return static_cast<EventKind>(flies    ? flying(random_)
                                  : exempt ? exempted(random_)
                                           : settled(random_));
  }

  std::mt19937_64 random_;
  std::vector<std::size_t> live_;
  std::size_t created_ = 0;
};

struct Failure {
  Program program;  // the last step is where the sides differ
  std::string difference;
};

std::optional<Failure> run_random(std::uint64_t seed, Mutation mutation, Coverage* coverage) {
  Comparison sides(mutation);
  Generator generator(seed);
  Program program;
  for (std::size_t i = 0; i < kStepsPerProgram; ++i) {
    program.push_back(generator.next(sides));
    auto difference = sides.apply(program.back(), coverage);
    if (!difference.has_value() && i % 64 == 0) difference = sides.compare_all();
    if (difference.has_value()) return Failure{std::move(program), *difference};
  }
  return std::nullopt;
}

std::optional<Failure> recompute(const Program& program, Mutation mutation) {
  Comparison sides(mutation);
  for (std::size_t i = 0; i < program.size(); ++i) {
    auto difference = sides.apply(program[i]);
    if (!difference.has_value() && i + 1 == program.size()) difference = sides.compare_all();
    if (difference.has_value()) {
      return Failure{Program(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(i) + 1),
                     *difference};
    }
  }
  return std::nullopt;
}

Failure shrink(const Failure& failure, Mutation mutation) {
  return shrunken(failure, &Failure::program,
                  [&](const Program& shorter) { return recompute(shorter, mutation); });
}

std::string describe(const Failure& failure) {
  std::string text;
  for (const Step& step : failure.program) text += "  " + describe(step) + "\n";
  return text + "  " + failure.difference;
}

std::vector<std::uint64_t> seeds() {
  if (const char* stated = std::getenv("RESIDENCY_SEED")) return {std::stoull(stated)};
  std::vector<std::uint64_t> all;
  for (std::uint64_t i = 0; i < kPrograms; ++i) all.push_back(1000 + i);
  return all;
}

TEST(ResidencyPropertyTest, AgreesWithTheReferenceOnRandomPrograms) {
  Coverage coverage;
  for (const std::uint64_t seed : seeds()) {
    const auto failure = run_random(seed, Mutation::kNone, &coverage);
    ASSERT_FALSE(failure.has_value()) << "RESIDENCY_SEED=" << seed << ", shrunk:\n"
                                      << describe(shrink(*failure, Mutation::kNone));
  }
  if (std::getenv("RESIDENCY_SEED") != nullptr) return;
  for (int row = 0; row < kRows; ++row) {
    for (int kind = 0; kind < kEventKinds; ++kind) {
      EXPECT_TRUE(coverage.contains({row, kind}))
          << "never tried: row " << row << ", event "
          << residency::to_string(static_cast<EventKind>(kind));
    }
  }
}

// All histories of one storage with at most kDepth events.
class AllHistories {
 public:
  explicit AllHistories(Mutation mutation) : mutation_(mutation) {}

  std::optional<Failure> run() {
    Comparison sides(mutation_);
    history_ = {{true, 0, {}, {}, Bytes{3}}};
    if (auto difference = sides.apply(history_.back())) return Failure{history_, *difference};
    return extend(sides, 0);
  }
  [[nodiscard]] std::size_t events() const { return events_; }

 private:
  static constexpr std::size_t kDepth = 5;

  std::optional<Failure> extend(const Comparison& sides, std::size_t depth) {
    if (depth == kDepth || !sides.state(0).has_value()) return std::nullopt;
    for (int kind = 0; kind < kEventKinds; ++kind) {
      for (const Tier tier : kTiers) {
        // The tier matters to Evict alone, which never names the device.
        const bool evicts = static_cast<EventKind>(kind) == EventKind::kEvict;
        if (evicts == (tier == Tier::kDevice)) continue;
        if (auto failure =
                extend_by({false, 0, static_cast<EventKind>(kind), tier, {}}, sides, depth)) {
          return failure;
        }
      }
    }
    return std::nullopt;
  }

  std::optional<Failure> extend_by(const Step& step, Comparison sides, std::size_t depth) {
    ++events_;
    history_.push_back(step);
    if (auto difference = sides.apply(step)) return Failure{history_, *difference};
    if (auto failure = extend(sides, depth + 1)) return failure;
    history_.pop_back();
    return std::nullopt;
  }

  Mutation mutation_;
  Program history_;
  std::size_t events_ = 0;
};

TEST(ResidencyPropertyTest, AgreesWithTheReferenceOnAllShortHistories) {
  AllHistories histories(Mutation::kNone);
  const auto failure = histories.run();
  ASSERT_FALSE(failure.has_value()) << describe(*failure);
  EXPECT_GT(histories.events(), 50'000U);
}

// The comparison can fail: each rule broken in the reference is found, and shrinks to a short list.
class BrokenRuleTest : public ::testing::TestWithParam<Mutation> {};

TEST_P(BrokenRuleTest, IsFoundAndShrunk) {
  std::optional<Failure> found;
  for (std::uint64_t seed = 1; seed <= 10 && !found.has_value(); ++seed) {
    found = run_random(seed, GetParam(), nullptr);
  }
  ASSERT_TRUE(found.has_value()) << "not noticed: " << to_string(GetParam());
  const Failure shrunk = shrink(*found, GetParam());
  EXPECT_LE(shrunk.program.size(), 8U) << describe(shrunk);
  EXPECT_TRUE(recompute(shrunk.program, GetParam()).has_value());
  EXPECT_FALSE(recompute(shrunk.program, Mutation::kNone).has_value())
      << "blamed on the mutation, but the sides differ without it:\n"
      << describe(shrunk);
}

std::vector<Mutation> all_mutations() {
  std::vector<Mutation> all;
  for (int i = 1; i <= static_cast<int>(kLastMutation); ++i)
    all.push_back(static_cast<Mutation>(i));
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryMutation, BrokenRuleTest, ::testing::ValuesIn(all_mutations()),
                         [](const auto& tested) { return test_name(tested.param); });

}  // namespace
}  // namespace spillway::testing
