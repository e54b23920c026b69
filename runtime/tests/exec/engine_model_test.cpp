// SPDX-License-Identifier: Apache-2.0
// One thread runs random ops, and a naive model says after each what must be resident, what must
// have a copy, and how many bytes the budget must count. The model knows the rules (what is pinned
// may not leave, cached pages go first and oldest first, victims are those of choose_victims) and
// nothing of how the engine keeps its books. All sizes are of different classes and whole pages, so
// that the outcome is determined.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <random>
#include <vector>

#include "engine_fixture.hpp"
#include "spillway/residency/victims.hpp"

namespace spillway::runtime {
namespace {

using residency::ResidencyState;

constexpr std::array<std::uint64_t, 6> kSizes{64 << 10,  96 << 10,  128 << 10,
                                              192 << 10, 320 << 10, 512 << 10};
constexpr std::uint64_t kLimit = 2 << 20;

/// The engine's answer in one word: which storages are on the device, and with what copies.
class Model {
 public:
  struct Storage {
    StorageId id{};
    std::uint64_t bytes = 0;
    std::uint64_t seed = 0;
    std::uint64_t last_use = 0;
    bool resident = true;
    bool clean = false;
    int pins = 0;
  };

  /// Room for a storage that is made (`cached` pages of its class count) or brought back.
  bool make_room(std::uint64_t bytes, bool from_cache, std::uint64_t now) {
    for (;;) {
      const auto cached = from_cache ? std::ranges::find(cache_, bytes) : cache_.end();
      std::uint64_t fresh = cached != cache_.end() ? 0 : bytes;
      while (used() + fresh > kLimit && !cache_.empty()) {
        cache_.pop_front();
        if (std::ranges::find(cache_, bytes) == cache_.end() || !from_cache) fresh = bytes;
      }
      if (used() + fresh <= kLimit) return true;
      if (!evict(used() + fresh - kLimit, now)) return false;
    }
  }
  void create(FakeStorage* key, const Storage& storage) {
    // The most recently freed one of the class.
    const auto cached = std::find(cache_.rbegin(), cache_.rend(), storage.bytes);
    if (cached != cache_.rend()) cache_.erase(std::next(cached).base());
    storages.emplace(key, storage);
  }
  void die(FakeStorage* key) {
    const Storage& storage = storages.at(key);
    if (storage.resident) cache_.push_back(storage.bytes);
    storages.erase(key);
  }
  [[nodiscard]] std::uint64_t live() const {
    std::uint64_t total = 0;
    for (const auto& [key, storage] : storages) total += storage.resident ? storage.bytes : 0;
    return total;
  }
  [[nodiscard]] std::uint64_t used() const {
    std::uint64_t total = live();
    for (const std::uint64_t bytes : cache_) total += bytes;
    return total;
  }

  std::map<FakeStorage*, Storage> storages;

 private:
  bool evict(std::uint64_t needed, std::uint64_t now) {
    std::vector<residency::Candidate> candidates;
    for (const auto& [key, storage] : storages) {
      if (!storage.resident || storage.pins != 0) continue;
      candidates.push_back({.id = storage.id,
                            .bytes = {storage.bytes},
                            .last_use = storage.last_use,
                            .next_use = residency::kUnknownUse,
                            .clean = storage.clean});
    }
    const auto victims = residency::choose_victims(candidates, {needed}, now);
    for (auto& [key, storage] : storages) {
      if (std::ranges::find(victims, storage.id) == victims.end()) continue;
      storage.resident = false;
      storage.clean = true;
    }
    return !victims.empty();
  }

  std::list<std::uint64_t> cache_;  // sizes of freed blocks with pages, oldest first
};

class EngineModelTest : public EngineTest {
 protected:
  void compare() {
    for (const auto& [key, expected] : model_.storages) {
      const ResidencyState state = key->record->state.load();
      ASSERT_EQ(state, expected.resident ? ResidencyState::kResident : ResidencyState::kOnDisk)
          << "a storage of " << expected.bytes;
      ASSERT_EQ(key->record->has_copy.load(), expected.clean);
      ASSERT_EQ(key->accessible.load(), expected.resident);
    }
    const Statistics statistics = engine_.statistics();
    ASSERT_EQ(statistics.device, Bytes{model_.used()});
    ASSERT_EQ(statistics.overshoot, Bytes{0});
    ASSERT_EQ(statistics.storages, model_.storages.size());
  }

  FakeStorage* any() {
    return std::next(model_.storages.begin(),
                     static_cast<std::ptrdiff_t>(random_() % model_.storages.size()))
        ->first;
  }

  // The output of the op before is free to leave when this one begins.
  void begin() {
    if (output_ != nullptr) --model_.storages.at(output_).pins;
    output_ = nullptr;
  }

  void make() {
    const std::uint64_t bytes = kSizes[random_() % kSizes.size()];
    const FakeOp op(engine_, random_());
    begin();
    const std::uint64_t now = engine_.ops();
    ASSERT_TRUE(model_.make_room(bytes, true, now)) << "pinned is one storage at most";
    FakeStorage* storage = make_storage(engine_, bytes);
    const std::uint64_t seed = random_();
    storage->fill(seed);
    model_.create(storage, {.id = storage->record->id,
                            .bytes = bytes,
                            .seed = seed,
                            .last_use = now,
                            .resident = true,
                            .clean = false,
                            .pins = 1});
    output_ = storage;
  }

  void use(FakeOp& op, FakeStorage* storage, bool writes) {
    Model::Storage& expected = model_.storages.at(storage);
    ++expected.pins;
    expected.last_use = engine_.ops();
    if (!expected.resident) {
      ASSERT_TRUE(model_.make_room(expected.bytes, false, engine_.ops()));
      expected.resident = true;
    }
    ASSERT_TRUE(writes ? op.write(*storage) : op.read(*storage)) << Engine::last_failure();
    ASSERT_TRUE(storage->holds(expected.seed));
    if (!writes) return;
    expected.clean = false;
    expected.seed = random_();
    storage->fill(expected.seed);
  }

  void run_op() {
    FakeOp op(engine_, random_());
    begin();
    std::vector<FakeStorage*> inputs;
    for (std::uint64_t count = 1 + random_() % 3; count > 0; --count) inputs.push_back(any());
    for (FakeStorage* input : inputs) use(op, input, random_() % 3 == 0);
    for (FakeStorage* input : inputs) --model_.storages.at(input).pins;
  }

  void die() {
    FakeStorage* storage = any();
    if (storage == output_) output_ = nullptr;
    model_.die(storage);
    drop_storage(engine_, storage);
  }

  std::mt19937_64 random_;
  Model model_;
  FakeStorage* output_ = nullptr;
};

TEST_F(EngineModelTest, RandomOpsAgreeWithTheModel) {
  for (const std::uint64_t seed : {7U, 42U, 1'000'003U}) {
    SCOPED_TRACE(seed);
    random_.seed(seed);
    start(Bytes{kLimit});
    for (int turn = 0; turn < 400; ++turn) {
      SCOPED_TRACE(turn);
      const std::uint64_t kind = random_() % 100;
      if (model_.storages.empty() || (kind < 30 && model_.storages.size() < 40)) {
        make();
      } else if (kind < 85) {
        run_op();
      } else {
        die();
      }
      if (HasFatalFailure()) return;
      compare();
      if (HasFatalFailure()) return;
    }
  }
  const Statistics statistics = engine_.statistics();
  EXPECT_GT(statistics.moves.evictions, 100U);
  EXPECT_GT(statistics.moves.clean_evicted, Bytes{0});
}

}  // namespace
}  // namespace spillway::runtime
