// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::tools {
namespace {

using testing::HasSubstr;
using testing::Not;

//   op        0       1       2
//   weight    r       r       w      persistent, 1 MiB
//   hidden    c w     r f            2 MiB
//   gradient          c w     r f    1 MiB; op 1 holds 3 MiB of workspace: 7 MiB, the largest
Trace small_step() {
  Trace trace;
  trace.framework = "torch 2.15.0";
  const StorageId weight = trace.add({kMiB, StorageRole::kParameter, true, "weight"});
  const StorageId hidden = trace.add({kMiB * 2, StorageRole::kActivation, false, ""});
  const StorageId gradient = trace.add({kMiB, StorageRole::kGradient, false, ""});
  TraceOp forward;
  forward.name = "aten::linear";
  forward.duration_ns = 2'000'000;
  forward.reads = {weight};
  forward.writes = forward.creates = {hidden};
  trace.add(forward);
  TraceOp backward;
  backward.name = "aten::linear_backward_" + std::string(60, 'x');
  backward.duration_ns = 350'000;
  backward.workspace = kMiB * 3;
  backward.reads = {weight, hidden};
  backward.writes = backward.creates = {gradient};
  backward.frees = {hidden};
  trace.add(backward);
  TraceOp update;
  update.name = "aten::add_\033[2J";
  update.duration_ns = 1'000'000;
  update.reads = update.frees = {gradient};
  update.writes = {weight};
  trace.add(update);
  return trace;
}

void expect_eighty_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(TraceOpsTest, ShowBytesOfEachAccess) {
  ASSERT_EQ(validate(small_step()), std::nullopt);
  const std::string text = format_trace_ops(small_step());
  EXPECT_THAT(text,
              HasSubstr("     0    2 ms    1 MiB    2 MiB    2 MiB        -  aten::linear\n"));
  EXPECT_THAT(text,
              HasSubstr("     1  350 us    3 MiB    1 MiB    1 MiB    2 MiB  aten::linear_ba"));
  expect_eighty_columns(text);
}

TEST(TraceOpsTest, NamesCannotReachTheTerminalUnchanged) {
  EXPECT_EQ(format_trace_ops(small_step()).find('\033'), std::string::npos);
}

TEST(TraceStatsTest, SumsUp) {
  const std::string text = format_trace_stats(small_step());
  EXPECT_THAT(text, HasSubstr("torch 2.15.0"));
  EXPECT_THAT(text, HasSubstr("ops                   3 in 3.4 ms\n"));
  EXPECT_THAT(text, HasSubstr("peak                  7 MiB\n"));
  EXPECT_THAT(text, HasSubstr("floor                 7 MiB\n"));
  EXPECT_THAT(text, HasSubstr("this step's tensors   7 MiB at once, 1 MiB persistent\n"));
  EXPECT_THAT(text, HasSubstr("largest working set   7 MiB, of op 1, aten::linear_backward"));
  EXPECT_THAT(text, HasSubstr("  activation                 1       2 MiB\n"));
  expect_eighty_columns(text);
}

// The run needed more than the recorded step: its words are those of its summary.
TEST(TraceStatsTest, PeakAndFloorAreTheRuns) {
  Trace trace = small_step();
  trace.run_peak = kMiB * 9 + kKiB;
  trace.run_floor = kMiB * 8;
  const std::string text = format_trace_stats(trace);
  EXPECT_THAT(text, HasSubstr("peak                  " + to_string(kMiB * 9 + kKiB) + "\n"));
  EXPECT_THAT(text, HasSubstr("floor                 8 MiB\n"));
  EXPECT_THAT(text, HasSubstr("this step's tensors   7 MiB at once"));
}

TEST(TraceStatsTest, AnEmptyTraceIsFine) {
  EXPECT_THAT(format_trace_stats(Trace{}), HasSubstr("ops                   0 in 0 ms"));
}

TEST(TraceStatsTest, AStepWithoutDurationsTookNoTimeThatIsKnown) {
  Trace trace = small_step();
  trace.timed = false;
  trace.ops.duration_ns.assign(3, 0);
  trace.workspace_known = false;
  const std::string text = format_trace_stats(trace);
  EXPECT_THAT(text, HasSubstr("ops                   3, recorded without running"));
  EXPECT_THAT(text, HasSubstr("without workspace"));
  EXPECT_THAT(text, Not(HasSubstr("0 ms")));
  EXPECT_THAT(format_trace_ops(trace), Not(HasSubstr("0 ms")));
}

TEST(TraceDiffTest, SaysThatOnlySizesDiffer) {
  Trace other = small_step();
  other.storages.bytes[1] = kMiB;
  const std::string text = format_trace_diff(small_step(), other);
  EXPECT_THAT(text, HasSubstr("The ops are the same by name, with other bytes."));
  other.ops.name.assign(1, "aten::mm");
  EXPECT_THAT(format_trace_diff(small_step(), other), Not(HasSubstr("by name")));
}

TEST(TraceTextTest, IsJsonIfAsked) {
  const std::string path = testing::TempDir() + "/small-step.json";
  write_trace(small_step(), path);
  using View = TraceRequest::View;
  const auto answer = [&](View view) {
    return nlohmann::json::parse(trace_text({view, path, path, true}));
  };
  const auto shown = answer(View::kShow);
  ASSERT_EQ(shown.size(), 3U);
  EXPECT_EQ(shown[1]["workspace"], (kMiB * 3).count);
  EXPECT_EQ(shown[1]["reads"], (kMiB * 3).count);
  const auto stats = answer(View::kStats);
  EXPECT_EQ(stats["peak"], (kMiB * 7).count);
  EXPECT_EQ(stats["floor"], (kMiB * 7).count);
  EXPECT_EQ(stats["step_peak"], (kMiB * 7).count);
  EXPECT_EQ(stats["time_ns"], 3'350'000);
  EXPECT_EQ(stats["roles"]["activation"]["bytes"], (kMiB * 2).count);
  EXPECT_EQ(stats["by_name"][0]["name"], "aten::linear");
  const auto same = answer(View::kDiff);
  EXPECT_EQ(same["same"], true);
  EXPECT_TRUE(same["only_in_first"].empty());
  std::filesystem::remove(path);
}

TEST(TraceDiffTest, ShowsTheStretchWhereStepsDiffer) {
  Trace other = small_step();
  other.ops.duration_ns[0] = 77;
  EXPECT_THAT(format_trace_diff(small_step(), other), HasSubstr("The ops are the same"))
      << "durations make no difference";
  other.ops.name.assign(1, "aten::mm");
  const std::string text = format_trace_diff(small_step(), other);
  EXPECT_THAT(text, HasSubstr("The first 1 ops are alike, and the last 1."));
  EXPECT_THAT(text, HasSubstr("\n-     1 "));
  EXPECT_THAT(text, HasSubstr("\n+     1 "));
  EXPECT_THAT(text, HasSubstr("aten::mm\n"));
  expect_eighty_columns(text);
  EXPECT_THAT(format_trace_diff(Trace{}, Trace{}), HasSubstr("The ops are the same"));
}

//   op    0      1      2      3
//   a     c 3           r f           MiB; program's order: 3, 6, 7, 5
//   b            c 3           r f    depth-first, 0 2 1 3: 3, 4, 4, 5
//   a'                  c 1
//   b'                         c 1
TEST(TraceTextTest, ReordersAStep) {
  Trace trace;
  trace.framework = "torch 2.15.0";
  std::vector<StorageId> made;
  for (const std::uint64_t mib : {3U, 3U, 1U, 1U}) {
    TraceOp op;
    op.recomputable = true;
    op.writes = op.creates = {trace.add({kMiB * mib, StorageRole::kActivation, false, ""})};
    made.push_back(op.creates.front());
    if (made.size() > 2) op.reads = op.frees = {made[made.size() - 3]};
    trace.add(op);
  }
  const std::string path = testing::TempDir() + "/two-branches.json";
  const std::string other_path = testing::TempDir() + "/depth-first.json.zst";
  write_trace(trace, path);
  TraceRequest request{.view = TraceRequest::View::kReorder, .path = path};
  request.output_path = other_path;
  EXPECT_EQ(trace_text(request),
            other_path +
                " has the 4 ops of the step in depth-first order, 2 of them in another "
                "place.\nIts peak is 5 MiB, in the program's order 7 MiB.\n");
  const Trace other = read_trace(other_path);
  EXPECT_EQ(other.framework, "torch 2.15.0; ops in depth-first order");
  EXPECT_EQ(other.ops.creates[OpIndex{1}].front(), made[2]);
  request.json = true;
  request.path = other_path;  // a step in this order stays in it, and is marked once
  const auto answer = nlohmann::json::parse(trace_text(request));
  EXPECT_EQ(answer["trace"], other_path);
  EXPECT_EQ(answer["ops"], 4);
  EXPECT_EQ(answer["moved"], 0);
  EXPECT_EQ(answer["peak"], (kMiB * 5).count);
  EXPECT_EQ(answer["peak_before"], (kMiB * 5).count);
  EXPECT_EQ(read_trace(other_path), other);
  request.output_path = testing::TempDir() + "/no/such/folder.json";
  EXPECT_THROW(trace_text(request), UserError);
  std::filesystem::remove(path);
  std::filesystem::remove(other_path);
}

TEST(TraceTextTest, AMissingFileIsAUserError) {
  EXPECT_THROW(trace_text({TraceRequest::View::kShow, "/no/such/trace", "", false}), UserError);
}

}  // namespace
}  // namespace spillway::tools
