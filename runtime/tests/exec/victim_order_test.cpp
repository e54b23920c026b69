// SPDX-License-Identifier: Apache-2.0
// The order that is kept gives the choice of residency::choose_victims on the same candidates.
#include "spillway/runtime/exec/victim_order.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "spillway/residency/victims.hpp"

namespace spillway::runtime {
namespace {

using residency::Candidate;
using residency::kNeverUsed;
using residency::ResidencyState;

constexpr Bytes kMinSize{3};

class VictimOrderTest : public ::testing::Test {
 protected:
  StorageRecord& make(Bytes bytes) {
    StorageRecord& record = records_.emplace_back();
    record.stale = &order_.stale();
    begin_life(record, bytes);
    return record;
  }
  // As the mover does with a record that is new, or whose storage died.
  void begin_life(StorageRecord& record, Bytes bytes) {
    record.id = StorageId{++last_id_};
    record.block = &block_;
    record.bytes = bytes;
    record.kept = 0;
    record.owner.store(&block_);
    record.state.store(ResidencyState::kResident);
    record.has_copy.store(false);
    record.last_use.store(now_);
    record.next_use.store(0);
    record.announce();
  }
  void use(StorageRecord& record, std::uint64_t next_use) {
    record.last_use.store(now_);
    record.next_use.store(next_use);
    record.announce();
  }
  [[nodiscard]] std::vector<StorageId> expected(Bytes needed) const {
    std::vector<Candidate> candidates;
    for (const StorageRecord& record : records_) {
      if (record.block == nullptr || record.state.load() != ResidencyState::kResident ||
          record.pins.load() != 0 || record.owner.load() == nullptr || record.kept != 0 ||
          record.bytes < kMinSize) {
        continue;
      }
      candidates.push_back({.id = record.id,
                            .bytes = record.bytes,
                            .last_use = record.last_use.load(),
                            .next_use = record.next_use.load(),
                            .clean = record.has_copy.load()});
    }
    return residency::choose_victims(candidates, needed, now_);
  }
  std::vector<StorageRecord*> choose(Bytes needed) { return order_.choose(needed, now_, kMinSize); }
  static std::vector<StorageId> ids(const std::vector<StorageRecord*>& records) {
    std::vector<StorageId> result;
    result.reserve(records.size());
    for (const StorageRecord* record : records) result.push_back(record->id);
    return result;
  }

  DeviceBlock block_;
  VictimOrder order_;
  std::deque<StorageRecord> records_;
  std::uint64_t last_id_ = 0;
  std::uint64_t now_ = 1;
};

/// One random change of one record, of those that a running program makes.
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed) {}
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  Bytes size() { return Bytes{1 + below(20) * (below(9) == 0 ? 50 : 1)}; }
  std::uint64_t next_use(std::uint64_t now) {
    const std::uint64_t uses[]{kNeverUsed, residency::kUnknownUse, now + below(400), now + 1};
    return uses[below(4)];
  }

 private:
  std::mt19937_64 random_;
};

TEST_F(VictimOrderTest, ChoosesTheSameAfterRandomHistories) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    History history(seed);
    std::vector<StorageRecord*> all;
    for (std::size_t i = 0; i < 60; ++i) all.push_back(&make(history.size()));
    for (int turn = 0; turn < 600; ++turn) {
      now_ += history.below(5);
      StorageRecord& record = *all[history.below(all.size())];
      switch (history.below(9)) {
        case 0:
        case 1:
        case 2:
          use(record, history.next_use(now_));
          break;
        case 3:
          record.pins.fetch_add(1);
          break;
        case 4:
          if (record.pins.load() != 0) record.unpin();
          break;
        case 5:
          record.has_copy.store(!record.has_copy.load());
          record.announce();
          break;
        case 6:
          record.state.store(history.below(2) == 0 ? ResidencyState::kResident
                                                   : ResidencyState::kOnDisk);
          record.announce();
          break;
        case 7:
          record.block = nullptr;
          record.announce();
          if (history.below(2) == 0) begin_life(record, history.size());
          break;
        default:
          record.kept = static_cast<std::uint32_t>(history.below(2));
          record.announce();
      }
      if (history.below(3) != 0) continue;
      const Bytes needed{1 + history.below(300)};
      const std::vector<StorageId> wanted = expected(needed);
      const std::vector<StorageRecord*> victims = choose(needed);
      ASSERT_EQ(ids(victims), wanted) << "turn " << turn;
      for (StorageRecord* victim : victims) {
        if (history.below(4) == 0) continue;  // something else keeps it
        victim->state.store(ResidencyState::kOnDisk);
        victim->has_copy.store(true);
        victim->announce();
      }
    }
    for (StorageRecord* record : all) {
      while (record->pins.load() != 0) record->unpin();
      record->block = nullptr;
      record->announce();
    }
  }
}

TEST_F(VictimOrderTest, AUseThatWasPredictedAndPassedCountsFromTheLastOne) {
  StorageRecord& early = make(Bytes{8});
  StorageRecord& late = make(Bytes{8});
  use(early, now_ + 10);
  use(late, now_ + 500);
  EXPECT_EQ(choose(Bytes{8}), std::vector{&late});
  now_ += 1'000;  // neither was used: both count from the last use, and ties go by id
  EXPECT_EQ(choose(Bytes{8}), std::vector{&early});
}

TEST_F(VictimOrderTest, WhatIsPinnedComesBackWithItsLastPin) {
  StorageRecord& record = make(Bytes{8});
  record.pins.fetch_add(2);
  EXPECT_TRUE(choose(Bytes{8}).empty());
  record.unpin();
  EXPECT_TRUE(choose(Bytes{8}).empty());
  record.unpin();
  EXPECT_EQ(choose(Bytes{8}), std::vector{&record});
}

TEST_F(VictimOrderTest, WhatIsSetAsideComesBackWhenItIsUsed) {
  StorageRecord& record = make(Bytes{8});
  ASSERT_EQ(choose(Bytes{8}), std::vector{&record});
  order_.set_aside(record);
  EXPECT_TRUE(choose(Bytes{8}).empty());
  use(record, 0);
  EXPECT_EQ(choose(Bytes{8}), std::vector{&record});
}

// To look at all of them each time would be 4e9 looks, and run into the test's time limit.
TEST_F(VictimOrderTest, AShortageDoesNotLookAtWhatStays) {
  std::vector<StorageRecord*> all;
  all.reserve(200'000);
  for (int i = 0; i < 200'000; ++i) all.push_back(&make(Bytes{8}));
  for (std::size_t shortage = 0; shortage < 20'000; ++shortage) {
    now_ += 1;
    const std::vector<StorageRecord*> victims = choose(Bytes{8});
    ASSERT_EQ(victims.size(), 1U);
    use(*victims.front(), now_ + 100'000);
  }
}

}  // namespace
}  // namespace spillway::runtime
