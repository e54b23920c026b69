// SPDX-License-Identifier: Apache-2.0
// Members that versions of the trace format added.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/trace/trace.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway {
namespace {

using testing::HasSubstr;

/// Everything that version 2 added.
Trace second_version_step() {
  Trace trace{.machine = "m", .framework = "f", .storages = {}, .ops = {}};
  trace.workspace_known = false;
  trace.add(TraceStorage{{50}, StorageRole::kGradient, false, "left over", kNoStorage});
  trace.add(TraceStorage{{50}, StorageRole::kGradient, false, "made", StorageId{0}});
  trace.add(TraceOp{.name = "zero_grad", .stream = 3, .frees = {StorageId{0}}});
  trace.add(TraceOp{.name = "backward",
                    .duration_ns = 7,
                    .arithmetic = Arithmetic::kBfloat16,
                    .recomputable = true,
                    .module = "layer1.0",
                    .alternatives = {{9, {100}}, {5, {4096}}},
                    .writes = {StorageId{1}},
                    .creates = {StorageId{1}}});
  return trace;
}

TEST(TraceTextTest, KeepsWhatTheSecondVersionAdded) {
  EXPECT_EQ(validate(second_version_step()), std::nullopt);
  EXPECT_EQ(parse_trace(format_trace(second_version_step()), "t"), second_version_step());
  Trace untimed = second_version_step();
  untimed.timed = false;
  untimed.ops.duration_ns = {0, 0};
  for (OpAlternative& way : untimed.ops.alternatives.items) way.duration_ns = 0;
  EXPECT_EQ(parse_trace(format_trace(untimed), "t"), untimed);
  EXPECT_EQ(format_trace(untimed).find("\"ns\""), std::string::npos);
}

TEST(TraceTextTest, ReadsTheNamesBeforeVersion4) {
  Trace trace = second_version_step();
  trace.ops.recomputable[0] = 1;
  trace.ops.workspace[0] = Bytes{5};
  trace.workspace_known = false;
  std::string text = format_trace(trace);
  for (const auto& [now, before] :
       {std::pair("\"spillway_trace\":5", "\"spillway_trace\":3"),
        {"\"workspace_known\"", "\"scratch_known\""},
        {"\"recomputable\"", "\"replayable\""},
        {"\"workspace\"", "\"alloc_peak\""},
        {"\"alternatives_workspace\"", "\"alternatives_alloc_peak\""}}) {
    const auto at = text.find(now);
    ASSERT_NE(at, std::string::npos) << now;
    while (text.find(now) != std::string::npos) {
      text.replace(text.find(now), std::string_view(now).size(), before);
    }
  }
  EXPECT_EQ(parse_trace(text, "t"), trace);
}

TEST(TraceTextTest, KeepsSignatures) {
  Trace trace = second_version_step();
  EXPECT_EQ(format_trace(trace).find("signature"), std::string::npos) << "none is known";
  EXPECT_TRUE(known_signatures(trace).empty());
  trace.ops.signature[1] = 0xf00d;
  EXPECT_THAT(format_trace(trace), HasSubstr(",\"signature\":\"000000000000f00d\""));
  EXPECT_EQ(parse_trace(format_trace(trace), "t"), trace);
  EXPECT_EQ(known_signatures(trace), (std::vector<std::uint64_t>{0, 0xf00d}));
  EXPECT_EQ(structure_hash(trace), structure_hash(second_version_step()));
  std::string text = format_trace(trace);
  text.replace(text.find("f00d"), 4, "food");
  EXPECT_THROW((void)parse_trace(text, "t"), UserError);
}

TEST(TraceTextTest, KeepsTheRunsPeakAndFloor) {
  Trace trace = second_version_step();
  EXPECT_EQ(format_trace(trace).find("\"run_"), std::string::npos) << "none was measured";
  trace.run_peak = kMiB * 5;
  trace.run_floor = Bytes{0};
  EXPECT_EQ(parse_trace(format_trace(trace), "t"), trace);
}

TEST(TraceValidateTest, RefusesContinuationsThatAreNone) {
  const auto problem_of = [](const std::function<void(Trace&)>& change) {
    Trace trace = second_version_step();
    change(trace);
    return validate(trace).value_or("valid");
  };
  EXPECT_THAT(problem_of([](Trace& t) { t.storages.continues[1] = StorageId{7}; }),
              HasSubstr("storage 1: continues as storage 7, but there are 2"));
  EXPECT_THAT(problem_of([](Trace& t) { t.storages.continues[1] = StorageId{1}; }),
              HasSubstr("which is not alive before the step alone"));
  EXPECT_THAT(problem_of([](Trace& t) { t.storages.continues[0] = StorageId{0}; }),
              HasSubstr("but is not alive after the step alone"));
  EXPECT_THAT(problem_of([](Trace& t) { t.storages.bytes[0] = {49}; }),
              HasSubstr("which has another size"));
  EXPECT_THAT(problem_of([](Trace& t) {
                const StorageId twin =
                    t.add(TraceStorage{.bytes = {50}, .continues = StorageId{0}});
                t.add(TraceOp{.creates = {twin}});
              }),
              HasSubstr("as does another storage"));
}

}  // namespace
}  // namespace spillway
