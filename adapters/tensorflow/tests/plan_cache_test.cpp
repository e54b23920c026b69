// SPDX-License-Identifier: Apache-2.0
#include "plan_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway::tf {
namespace {

class PlanCacheTest : public ::testing::Test {
 protected:
  PlanCacheTest() { std::filesystem::remove_all(folder_); }
  ~PlanCacheTest() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "plans-" + std::to_string(::getpid());
  const PlanCache cache_{folder_, "lms 40 MiB"};
  const std::vector<HoleDecision> decisions_{{.hole = 10, .leaves = true, .due = 3},
                                             {.hole = 12, .leaves = false, .due = 4}};
};

TEST_F(PlanCacheTest, WhatWasWrittenIsReadWithTheNumbersOfTheGraphAtHand) {
  EXPECT_TRUE(cache_.read(7, 10, 3).empty());
  cache_.write(7, 10, decisions_);
  const auto found = cache_.read(7, 100, 3);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].hole, 100U);
  EXPECT_TRUE(found[0].leaves);
  EXPECT_EQ(found[0].due, 3U);
  EXPECT_EQ(found[1].hole, 102U);
  EXPECT_FALSE(found[1].leaves);
}

TEST_F(PlanCacheTest, AnotherGraphPlannerOrNumberOfHolesHasNoPlan) {
  cache_.write(7, 10, decisions_);
  EXPECT_TRUE(cache_.read(8, 10, 3).empty());
  EXPECT_TRUE(cache_.read(7, 10, 2).empty());
  EXPECT_TRUE(PlanCache(folder_, "lms 41 MiB").read(7, 10, 3).empty());
}

TEST_F(PlanCacheTest, AFileThatIsNoPlanIsNone) {
  cache_.write(7, 10, decisions_);
  for (const char* const text : {"", "{}", "{\"version\":1,\"holes\":[[0]]}", "[1"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::ofstream(file.path()) << text;
    }
    EXPECT_TRUE(cache_.read(7, 10, 3).empty()) << text;
  }
}

TEST_F(PlanCacheTest, NothingIsKeptWithoutADirectoryOrWhereItCannotBeWritten) {
  PlanCache("", "").write(7, 10, decisions_);
  const PlanCache nowhere("/proc/none", "");
  nowhere.write(7, 10, decisions_);
  EXPECT_TRUE(nowhere.read(7, 10, 3).empty());
}

}  // namespace
}  // namespace spillway::tf
