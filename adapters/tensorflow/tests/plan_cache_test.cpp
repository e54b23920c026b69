// SPDX-License-Identifier: Apache-2.0
#include "plan_cache.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway::tf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PlanCacheTest : public ::testing::Test {
 public:
  ~PlanCacheTest() override { std::filesystem::remove_all(folder_); }

 protected:
  PlanCacheTest() { std::filesystem::remove_all(folder_); }

  const std::string folder_ = ::testing::TempDir() + "plans-" + std::to_string(::getpid());
  const PlanCache cache_{folder_, "lms 40 MiB"};
  const std::vector<HoleDecision> decisions_{{.hole = 10, .leaves = true, .due = 3},
                                             {.hole = 12, .due = 4, .recomputed = true}};
};

TEST_F(PlanCacheTest, WhatWasWrittenIsReadWithTheNumbersOfTheGraphAtHand) {
  EXPECT_TRUE(cache_.read(7, 10, 3).empty());
  EXPECT_EQ(cache_.write(7, 10, decisions_), "");
  const auto found = cache_.read(7, 100, 3);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].hole, 100U);
  EXPECT_TRUE(found[0].leaves);
  EXPECT_EQ(found[0].due, 3U);
  EXPECT_EQ(found[1].hole, 102U);
  EXPECT_FALSE(found[1].leaves);
  EXPECT_FALSE(found[0].recomputed);
  EXPECT_TRUE(found[1].recomputed);
}

TEST_F(PlanCacheTest, AnotherGraphPlannerOrNumberOfHolesHasNoPlan) {
  cache_.write(7, 10, decisions_);
  EXPECT_TRUE(cache_.read(8, 10, 3).empty());
  EXPECT_TRUE(cache_.read(7, 10, 2).empty());
  EXPECT_TRUE(PlanCache(folder_, "lms 41 MiB").read(7, 10, 3).empty());
}

TEST_F(PlanCacheTest, AFileThatIsNoPlanIsNone) {
  cache_.write(7, 10, decisions_);
  for (const char* const text : {"", "{}", "{\"version\":2,\"holes\":[[0,true,3]]}", "[1"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      std::ofstream(file.path()) << text;
    }
    EXPECT_TRUE(cache_.read(7, 10, 3).empty()) << text;
  }
}

TEST_F(PlanCacheTest, NothingIsKeptWithoutADirectoryOrWhereItCannotBeWritten) {
  EXPECT_EQ(PlanCache("", "").write(7, 10, decisions_), "");
  const PlanCache nowhere("/proc/none", "");
  EXPECT_THAT(nowhere.write(7, 10, decisions_),
              AllOf(HasSubstr("/proc/none/tensorflow-"), HasSubstr("No such file or directory")));
  EXPECT_TRUE(nowhere.read(7, 10, 3).empty());
}

TEST_F(PlanCacheTest, WhyAFileCannotBeWrittenIsSaidAndNothingIsLeftOfIt) {
  const PlanCache full("/dev/full", "");
  EXPECT_THAT(full.write(7, 10, decisions_), HasSubstr("Not a directory"));
  // A folder in the place of the plan.
  ASSERT_EQ(cache_.write(7, 10, decisions_), "");
  const std::string file = std::filesystem::directory_iterator(folder_)->path();
  std::filesystem::remove(file);
  std::filesystem::create_directories(file + "/in it");
  EXPECT_THAT(cache_.write(7, 10, decisions_), AllOf(HasSubstr(file), HasSubstr("directory")));
  const std::filesystem::directory_iterator files(folder_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

}  // namespace
}  // namespace spillway::tf
