// SPDX-License-Identifier: Apache-2.0
#include "spillway/residency/victims.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

namespace spillway::residency {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::uint64_t kNow = 1000;

Candidate known(std::uint64_t id, Bytes bytes, std::uint64_t next_use, bool clean = false) {
  return {StorageId{id}, bytes, 1, next_use, clean};
}
Candidate unknown(std::uint64_t id, Bytes bytes, std::uint64_t last_use, bool clean = false) {
  return {StorageId{id}, bytes, last_use, kUnknownUse, clean};
}
std::vector<std::uint64_t> choose(const std::vector<Candidate>& candidates, Bytes needed,
                                  std::optional<std::uint64_t> now = kNow) {
  std::vector<std::uint64_t> ids;
  for (const StorageId id : choose_victims(candidates, needed, now)) ids.push_back(to_value(id));
  return ids;
}

TEST(VictimsTest, FurthestNextUseFirst) {
  EXPECT_THAT(choose({known(1, kMiB, kNow + 10), known(2, kMiB, kNow + 30),
                      known(3, kMiB, kNeverUsed), known(4, kMiB, kNow + 20)},
                     kMiB * 3),
              ElementsAre(3, 2, 4));
}

TEST(VictimsTest, LeastRecentlyUsedWhereNothingIsKnown) {
  EXPECT_THAT(
      choose({unknown(1, kMiB, 900), unknown(2, kMiB, 100), unknown(3, kMiB, 500)}, kMiB * 2),
      ElementsAre(2, 3));
  EXPECT_THAT(choose({unknown(1, kMiB, 900), unknown(2, kMiB, 100), unknown(3, kMiB, 500)},
                     kMiB * 2, std::nullopt),
              ElementsAre(2, 3));
}

//   last use 700 |<-- 300 --> now 1000 <-- 300 -->| expected at 1300
TEST(VictimsTest, UnknownUseIsExpectedAsFarAheadAsTheLastLiesBack) {
  const Candidate idle = unknown(1, kMiB, 700);
  EXPECT_THAT(choose({idle, known(2, kMiB, 1299)}, kMiB), ElementsAre(1));
  EXPECT_THAT(choose({idle, known(2, kMiB, 1301)}, kMiB), ElementsAre(2));
}

TEST(VictimsTest, PredictionThatHasPassedIsUnknown) {
  const Candidate missed{StorageId{1}, kMiB, 400, 900, false};  // as if 1600
  EXPECT_THAT(choose({missed, known(2, kMiB, 1500)}, kMiB), ElementsAre(1));
  EXPECT_THAT(choose({missed, known(2, kMiB, 1700)}, kMiB), ElementsAre(2));
}

TEST(VictimsTest, CleanIsPreferredWithinTenPercent) {
  const Candidate clean = known(1, kMiB, kNow + 100, true);
  EXPECT_THAT(choose({clean, known(2, kMiB, kNow + 109)}, kMiB), ElementsAre(1));
  EXPECT_THAT(choose({clean, known(2, kMiB, kNow + 111)}, kMiB), ElementsAre(2));
  EXPECT_THAT(choose({known(2, kMiB, kNeverUsed), known(1, kMiB, kNeverUsed, true)}, kMiB),
              ElementsAre(1));
}

TEST(VictimsTest, DropsWhatALaterVictimMakesUnnecessary) {
  EXPECT_THAT(choose({known(1, kMiB, kNow + 100), known(2, kMiB * 3, kNow + 90)}, kMiB * 3),
              ElementsAre(2));
}

TEST(VictimsTest, SparesALargeBlockWhereSmallOnesSuffice) {
  const std::vector<Candidate> far{known(1, kGiB, kNow + 100), known(2, kMiB, kNow + 60)};
  EXPECT_THAT(choose(far, kMiB), ElementsAre(2));
  EXPECT_THAT(choose(far, kMiB * 2), ElementsAre(1)) << "the small one does not suffice";
  const std::vector<Candidate> soon{known(1, kGiB, kNow + 100), known(2, kMiB, kNow + 40)};
  EXPECT_THAT(choose(soon, kMiB), ElementsAre(1)) << "the small one is used much sooner";
  const std::vector<Candidate> several{known(1, kGiB, kNow + 100), known(2, kMiB, kNow + 90),
                                       known(3, kMiB, kNow + 80), known(4, kMiB, kNow + 70)};
  EXPECT_THAT(choose(several, kMiB * 2), ElementsAre(2, 3));
}

TEST(VictimsTest, EdgesOfTheNeed) {
  const std::vector<Candidate> two{known(1, kMiB, kNow + 1), known(2, kMiB, kNow + 2)};
  EXPECT_THAT(choose(two, Bytes{0}), IsEmpty());
  EXPECT_THAT(choose({}, kMiB), IsEmpty());
  EXPECT_THAT(choose(two, kGiB), UnorderedElementsAre(1, 2)) << "everything, though too little";
  EXPECT_THAT(choose({known(1, Bytes{0}, kNeverUsed), known(2, kMiB, kNow + 2)}, Bytes{1}),
              ElementsAre(2));
}

TEST(VictimsTest, ChoiceDoesNotDependOnTheOrderOfCandidates) {
  std::vector<Candidate> same;
  for (std::uint64_t id = 1; id <= 20; ++id) same.push_back(known(id, kMiB, kNow + 50));
  const auto first = choose(same, kMiB * 7);
  std::reverse(same.begin(), same.end());
  EXPECT_EQ(choose(same, kMiB * 7), first);
}

std::vector<Candidate> random_candidates(std::mt19937_64& random, std::size_t count) {
  const auto below = [&](std::uint64_t n) { return random() % n; };
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t uses[]{kNeverUsed, kUnknownUse, below(kNow), kNow + below(500)};
    all.push_back({StorageId{i + 1}, Bytes{below(20) * (below(9) == 0 ? 50 : 1)}, below(kNow),
                   uses[below(4)], below(2) == 0});
  }
  return all;
}

TEST(VictimsTest, SufficeAndNoneIsSuperfluous) {
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto candidates = random_candidates(random, random() % 40);
    std::map<StorageId, Bytes> sizes;
    Bytes all{};
    for (const Candidate& c : candidates) {
      sizes[c.id] = c.bytes;
      all += c.bytes;
    }
    const Bytes needed{1 + random() % 400};
    const auto victims = choose_victims(candidates, needed, kNow);
    Bytes freed{};
    for (const StorageId id : victims) freed += sizes.at(id);
    if (all < needed) {
      ASSERT_EQ(freed, all);
      continue;
    }
    ASSERT_GE(freed, needed);
    for (const StorageId id : victims) ASSERT_LT(freed - sizes.at(id), needed);
    ASSERT_EQ(std::set(victims.begin(), victims.end()).size(), victims.size());
  }
}

// Quadratic work would be 4e10 comparisons here and run into the test's time limit.
TEST(VictimsTest, ManyCandidatesAndManyVictims) {
  std::vector<Candidate> candidates;
  for (std::uint64_t id = 1; id <= 200'000; ++id) {
    candidates.push_back(known(id, kKiB, kNow + (id * 7919) % 100'003));
  }
  EXPECT_EQ(choose_victims(candidates, kKiB * 100'000, kNow).size(), 100'000U);
}

}  // namespace
}  // namespace spillway::residency
