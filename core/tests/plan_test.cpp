// SPDX-License-Identifier: Apache-2.0
#include "spillway/plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>

#include "documented_example.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"

namespace spillway {
namespace {

using testing::HasSubstr;

PlanPlace place(std::uint64_t storage, std::initializer_list<Tier> tiers) {
  PlanPlace result{.storage = StorageId{storage}};
  for (const Tier tier : tiers) result.add(tier);
  return result;
}

/// One action of every kind.
Plan small_plan() {
  Plan plan{.planner = "by \"hand\"",
            .trace = "steps/t.json",
            .machine = "card",
            .durations = Durations::kRecorded,
            .recorded_on = "Fast 9000",
            .structure = 0xfedcba9876543210};
  plan.budgets = {{kGiB, kGiB * 2, kGiB * 3}};
  plan.workspace_margin = kMiB * 7;
  plan.page_fault_ns = 25'000;
  plan.places = {place(1, {Tier::kHost}), place(4, {Tier::kDevice, Tier::kDisk})};
  plan.actions = {
      PlanAction::choose(OpIndex{7}, 2),
      PlanAction::fetch(OpIndex{0}, StorageId{1}),
      PlanAction::forget(OpIndex{0}, StorageId{1}),
      PlanAction::wait(OpIndex{1}, StorageId{1}),
      PlanAction::evict(OpIndex{3}, StorageId{2}, Tier::kHost),
      PlanAction::demote(OpIndex{5}, StorageId{2}),
      PlanAction::drop(OpIndex{6}, StorageId{3}),
      PlanAction::recompute(OpIndex{9}, OpIndex{2}),
      PlanAction::evict(OpIndex{10}, StorageId{1}, Tier::kDisk),
  };
  return plan;
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_plan(text, "p.json");
    return "read";
  } catch (const UserError& error) {
    return error.what();
  }
}

TEST(PlanTest, KindsHaveWords) {
  for (std::size_t i = 0; i < kPlanActionKindCount; ++i) {
    const auto kind = static_cast<PlanActionKind>(i);
    EXPECT_EQ(parse_plan_action_kind(to_string(kind)), kind);
  }
  EXPECT_EQ(parse_plan_action_kind("Evict"), std::nullopt);
}

TEST(PlanTest, SortingKeepsTheOrderWithinAnOp) {
  Plan plan;
  plan.actions = {PlanAction::fetch(OpIndex{2}, StorageId{1}),
                  PlanAction::drop(OpIndex{1}, StorageId{9}),
                  PlanAction::evict(OpIndex{2}, StorageId{0}, Tier::kHost)};
  plan.places = {place(3, {Tier::kHost}), place(1, {Tier::kDisk})};
  sort(plan);
  EXPECT_EQ(plan.actions[0].kind, PlanActionKind::kDrop);
  EXPECT_EQ(plan.actions[1].kind, PlanActionKind::kFetch);
  EXPECT_EQ(plan.actions[2].kind, PlanActionKind::kEvict);
  EXPECT_EQ(plan.places[0].storage, StorageId{1});
}

TEST(PlanTextTest, ReadsWhatItWrote) {
  EXPECT_EQ(parse_plan(format_plan(small_plan()), "p"), small_plan());
  EXPECT_EQ(parse_plan(format_plan(Plan{}), "p"), Plan{});
}

TEST(PlanTextTest, HasAnActionPerLine) {
  const std::string text = format_plan(small_plan());
  EXPECT_THAT(text, HasSubstr("\n{\"at\":3,\"do\":\"evict\",\"storage\":2,\"tier\":\"host\"},\n"));
  EXPECT_THAT(text, HasSubstr("\n{\"at\":9,\"do\":\"recompute\",\"op\":2},\n"));
  EXPECT_THAT(text, HasSubstr("\n{\"storage\":4,\"tiers\":[\"device\",\"disk\"]}\n"));
  EXPECT_THAT(text, HasSubstr("\"structure\":\"fedcba9876543210\""));
}

TEST(PlanTextTest, TheDocumentedExampleIsWhatIsWritten) {
  const std::string example = documented_example("## Plan, version 4");
  EXPECT_EQ(format_plan(parse_plan(example, "docs/formats.md")), example);
}

TEST(PlanTextTest, NamesTheMistakeAndItsPlace) {
  const auto error = [](std::string_view from, std::string_view to) {
    std::string text = format_plan(small_plan());
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return error_of(text.replace(at, from.size(), to));
  };
  EXPECT_THAT(error("\"spillway_plan\":4", "\"spillway_plan\":5"),
              HasSubstr("plan p.json: \"spillway_plan\": it has version 5"));
  EXPECT_THAT(error("\"spillway_plan\":4,\n", ""), HasSubstr("so it is no plan"));
  EXPECT_THAT(error("\"recorded\"", "\"guessed\""),
              HasSubstr("\"durations\" is \"guessed\", neither recorded nor estimated"));
  EXPECT_EQ(error_of(R"({"spillway_trace":4})"), "p.json is a trace, not a plan.");
  EXPECT_THAT(error("\"do\":\"demote\"", "\"do\":\"promote\""),
              HasSubstr("action 5: \"do\" is \"promote\", which is no action"));
  EXPECT_THAT(error("\"do\":\"demote\",", ""), HasSubstr("action 5: \"do\" is missing"));
  EXPECT_THAT(error(",\"tier\":\"host\"", ""), HasSubstr("action 4: \"tier\" is missing"));
  EXPECT_THAT(error("\"tier\":\"host\"", "\"tier\":\"tape\""), HasSubstr("which is no tier"));
  EXPECT_THAT(error("\"do\":\"drop\"", "\"do\":\"drop\",\"op\":3"),
              HasSubstr("action 6: \"op\" means nothing here"));
  EXPECT_THAT(error("\"at\":5", "\"at\":2"), HasSubstr("action 5: \"at\" is below"));
  EXPECT_THAT(error("\"at\":5", "\"at\":-2"), HasSubstr("action 5: \"at\" is -2, not a whole"));
  EXPECT_THAT(error("{\"storage\":4", "{\"storage\":1"), HasSubstr("place 1: its storage"));
  EXPECT_THAT(error("[\"host\"]", "\"host\""), HasSubstr("place 0: \"tiers\" is not a list"));
  EXPECT_THAT(error("\"fedcba9876543210\"", "\"fedcba98765432100\""), HasSubstr("hexadecimal"));
  EXPECT_THAT(error("\"device_budget\"", "\"budget\""), HasSubstr("\"budget\" is not known"));
}

// It says neither where the durations are from nor what is left free, and calls recomputing replay.
TEST(PlanTextTest, ReadsVersion1) {
  std::string text = format_plan(small_plan());
  for (const auto& [from, to] : {std::pair("\"spillway_plan\":4", "\"spillway_plan\":1"),
                                 {"\"durations\":\"recorded\",\n", ""},
                                 {"\"do\":\"recompute\"", "\"do\":\"replay\""},
                                 {"\"recorded_on\":\"Fast 9000\",\n", ""},
                                 {"\"workspace_margin\":7340032,\n", ""}}) {
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, std::string_view(from).size(), to);
  }
  Plan expected = small_plan();
  expected.durations.reset();
  expected.recorded_on.clear();
  expected.workspace_margin = {};
  EXPECT_EQ(parse_plan(text, "p"), expected);
}

TEST(PlanTextTest, KeepsSignatures) {
  Plan plan = small_plan();
  EXPECT_EQ(format_plan(plan).find("\"ops\""), std::string::npos) << "none is known";
  plan.signatures = {0xf00d, 0, 0xfedcba9876543210};
  const std::string text = format_plan(plan);
  EXPECT_THAT(text, HasSubstr("\n],\n\"ops\":[\n{\"signature\":\"000000000000f00d\"},\n{},\n"));
  EXPECT_EQ(parse_plan(text, "p"), plan);
  EXPECT_THAT(error_of(std::string(text).replace(text.find("f00d"), 4, "food")),
              HasSubstr("op 0: \"signature\" is \"000000000000food\", not a hexadecimal number"));
}

TEST(PlanTextTest, SeesEveryTruncation) {
  const std::string text = format_plan(small_plan());
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {
    ASSERT_NE(error_of(text.substr(0, size)), "read") << size;
  }
}

TEST(PlanFileTest, IsCompressedWhereItsNameSaysSo) {
  std::string pattern = testing::TempDir() + "/spillway-plan-XXXXXX";
  const std::string directory = ::mkdtemp(pattern.data());
  for (const char* name : {"/p.json", "/p.json.zst"}) {
    write_plan(small_plan(), directory + name);
    EXPECT_EQ(read_plan(directory + name), small_plan());
  }
  EXPECT_LT(std::filesystem::file_size(directory + "/p.json.zst"),
            std::filesystem::file_size(directory + "/p.json"));
  EXPECT_THROW((void)read_plan(directory + "/absent"), UserError);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace spillway
