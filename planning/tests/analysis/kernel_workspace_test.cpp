// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/kernel_workspace.hpp"

#include <gtest/gtest.h>

#include "spillway/base/error.hpp"
#include "spillway/planning/workspace_margin.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::planning {
namespace {

using testing::plain_machine;
using testing::StepBuilder;

//   op         reads, makes        workspace     made and freed within
//   conv       1000                300         200
//   relu       500                 0
Trace step_that_ran() {
  StepBuilder step;
  const StorageId a = step.temporary(1'000, "a");
  const StorageId packed = step.temporary(200, "packed");
  const StorageId b = step.temporary(500, "b");
  step.op(10, {.creates = {a, packed}, .frees = {packed}, .workspace = 300});
  step.op(10, {.creates = {b}, .reads = {a}, .frees = {a, b}});
  step.trace().ops.bytes_touched = {Bytes{1'000}, Bytes{500}};
  return step.build();
}

// The same without kernels, with another op besides.
Trace step_without_kernels() {
  StepBuilder step;
  const StorageId a = step.temporary(1'000, "a");
  const StorageId b = step.temporary(500, "b");
  const StorageId c = step.temporary(4'000, "c");
  step.op(10, {.creates = {a}});
  step.op(10, {.creates = {b}, .reads = {a}, .frees = {a, b}});
  step.op(10, {.creates = {c}, .frees = {c}});
  step.trace().ops.bytes_touched = {Bytes{1'000}, Bytes{500}, Bytes{4'000}};
  step.trace().workspace_known = false;
  return step.build();
}

TEST(KernelWorkspaceTest, OpsOfTheSameSizeAreLentWhatWasSeen) {
  Machine machine = plain_machine();
  learn_workspace(machine, step_that_ran(), "measured: a run");
  EXPECT_EQ(machine.workspace.source, "measured: a run");
  Trace trace = step_without_kernels();
  EXPECT_EQ(lend_workspace(trace, machine), (std::vector<std::uint8_t>{1, 1, 0}));
  EXPECT_EQ(trace.ops.workspace[0], Bytes{500}) << "what it made and freed itself is workspace too";
  EXPECT_EQ(trace.ops.workspace[1], Bytes{0}) << "what it makes and frees is in both steps";
  EXPECT_EQ(trace.ops.workspace[2], Bytes{0});
}

TEST(KernelWorkspaceTest, AnOpOfAnotherSizeOrNameIsNotKnown) {
  Machine machine = plain_machine();
  learn_workspace(machine, step_that_ran(), "measured: a run");
  Trace trace = step_without_kernels();
  trace.ops.bytes_touched = {Bytes{1'001}, Bytes{1'000}, {}};
  EXPECT_EQ(lend_workspace(trace, machine), (std::vector<std::uint8_t>{0, 0, 0}));
}

TEST(KernelWorkspaceTest, TheMarginIsForTheOpsThatAreNotKnown) {
  Machine machine = plain_machine();
  learn_workspace(machine, step_that_ran(), "measured: a run");
  Trace trace = step_without_kernels();
  const auto known = lend_workspace(trace, machine);
  EXPECT_EQ(workspace_margin(trace, 0.5, known), Bytes{2'000});
  EXPECT_EQ(workspace_margin(trace, 0.5, std::vector<std::uint8_t>{0, 1, 1}), Bytes{750});
  EXPECT_EQ(workspace_margin(trace, 0.5, std::vector<std::uint8_t>{1, 1, 1}), Bytes{0});
}

TEST(KernelWorkspaceTest, OfTwoRunsTheLargerFigureIsKeptAndEachRunNamedOnce) {
  Machine machine = plain_machine();
  Trace more = step_that_ran();
  more.ops.workspace[1] = Bytes{70};
  Trace less = step_that_ran();
  less.ops.workspace[0] = Bytes{1};
  for (const Trace& each : {step_that_ran(), more, less}) learn_workspace(machine, each, "a run");
  ASSERT_EQ(machine.workspace.value.size(), 2U);
  EXPECT_EQ(machine.workspace.value[0], (KernelWorkspace{"op0", Bytes{1'000}, Bytes{500}}));
  EXPECT_EQ(machine.workspace.value[1], (KernelWorkspace{"op1", Bytes{500}, Bytes{570}}));
  EXPECT_EQ(machine.workspace.source, "a run");
}

TEST(KernelWorkspaceTest, NothingIsLearnedFromAStepWithoutKernelsNorLentToOneThatRan) {
  Machine machine = plain_machine();
  EXPECT_THROW(learn_workspace(machine, step_without_kernels(), "a run"), UserError);
  learn_workspace(machine, step_that_ran(), "a run");
  Trace ran = step_that_ran();
  ran.ops.workspace[0] = Bytes{1};
  lend_workspace(ran, machine);
  EXPECT_EQ(ran.ops.workspace[0], Bytes{1});
}

}  // namespace
}  // namespace spillway::planning
