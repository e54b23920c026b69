// SPDX-License-Identifier: Apache-2.0
// The kernels of a pair on a card, run as TensorFlow runs them, over a device whose copies end when
// the test says so.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "card_session.hpp"
#include "fake_card.hpp"
#include "graph_builder.hpp"
#include "spillway/base/error.hpp"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/node_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/public/version.h"

namespace spillway::tf {
namespace {

using ::tensorflow::NodeDef;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorValue;
using testing::FakeCard;
using testing::FakeContext;
using ::testing::HasSubstr;
using testing::holds;

constexpr int kFloats = 1024;
constexpr Bytes kSize = kKiB * 4;
constexpr Bytes kBudget = kMiB;

runtime::Settings settings() {
  runtime::Settings settings;
  settings.budget_of = runtime::BudgetDevice::kCuda;
  settings.budget = runtime::parse_budget("1MiB", "SPILLWAY_BUDGET");
  settings.host_budget = runtime::parse_budget("1GiB", "SPILLWAY_HOST_BUDGET");
  settings.min_size = kKiB;
  return settings;
}

NodeDef node(const std::string& op, std::uint64_t hole, std::uint64_t holes) {
  NodeDef node;
  node.set_name(op + std::to_string(hole));
  node.set_op(op);
  node.add_input("before");
  auto& attributes = *node.mutable_attr();
  attributes["T"].set_type(::tensorflow::DT_FLOAT);
  attributes["hole"].set_i(static_cast<int64_t>(hole));
  if (op == "SpillwaySwapOut") {
    attributes["holes"].set_i(static_cast<int64_t>(holes));
    attributes["made_by"].set_s("dense/Relu");
  } else {
    for (const char* const name : {"clock", "due", "latest"}) attributes[name].set_i(0);
  }
  return node;
}

// One run of a kernel.
class KernelRun {
 public:
  KernelRun(FakeCard& card, OpKernel& kernel, Tensor input,
            ::tensorflow::CancellationManager* manager = nullptr)
      : input_(std::move(input)), inputs_{TensorValue(&input_)} {
    params_.device = &card;
    params_.op_kernel = &kernel;
    params_.inputs = inputs_;
    params_.op_device_context = &card.context();
    params_.cancellation_manager = manager;
    params_.output_attr_array = &output_;
    params_.step_id = 1;
    context_ = std::make_unique<OpKernelContext>(&params_);
    kernel.AsAsync()->ComputeAsync(context_.get(), [this] { ++ends_; });
  }

  [[nodiscard]] int ends() const { return ends_; }
  [[nodiscard]] absl::Status status() const { return context_->status(); }
  /// Whoever takes it holds it alone: the run is over.
  Tensor take_output() {
    Tensor output = *context_->mutable_output(0);
    context_.reset();
    input_ = Tensor();
    return output;
  }

 private:
  Tensor input_;
  std::vector<TensorValue> inputs_;
  ::tensorflow::AllocatorAttributes output_;
  OpKernelContext::Params params_;
  std::unique_ptr<OpKernelContext> context_;
  int ends_ = 0;
};

class CardSwapOpsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (CardSession::get() == nullptr) CardSession::start(settings());
  }

  CardSwapOpsTest() : hole_(CardSession::get()->table().add_holes({false, false})) {
    out_ = kernel(node("SpillwaySwapOut", hole_, 1));
    in_ = kernel(node("SpillwaySwapIn", hole_, 0));
  }

  std::unique_ptr<OpKernel> kernel(const NodeDef& node) {
    absl::Status status;
    auto made = ::tensorflow::CreateOpKernel(::tensorflow::DEVICE_GPU, &card_, &card_.memory(),
                                             node, TF_GRAPH_DEF_VERSION, &status);
    EXPECT_TRUE(status.ok()) << status;
    return made;
  }

  /// Runs the swap-out of a tensor that nobody else holds, and returns the token.
  Tensor leave(float first) {
    KernelRun run(card_, *out_, card_.tensor(kFloats, first));
    EXPECT_EQ(run.ends(), 1);  // it waits for no copy
    EXPECT_TRUE(run.status().ok()) << run.status();
    return run.take_output();
  }

  FakeCard card_{kBudget, kMiB * 64};
  FakeContext& context_ = card_.context();
  std::uint64_t hole_;
  std::unique_ptr<OpKernel> out_;
  std::unique_ptr<OpKernel> in_;
};

TEST_F(CardSwapOpsTest, TheTokenIsInTheMachinesMemoryToTheFramework) {
  EXPECT_THAT(out_->input_memory_types(), ::testing::ElementsAre(::tensorflow::DEVICE_MEMORY));
  EXPECT_THAT(out_->output_memory_types(), ::testing::ElementsAre(::tensorflow::HOST_MEMORY));
  EXPECT_THAT(in_->input_memory_types(), ::testing::ElementsAre(::tensorflow::HOST_MEMORY));
  EXPECT_THAT(in_->output_memory_types(), ::testing::ElementsAre(::tensorflow::DEVICE_MEMORY));
}

TEST_F(CardSwapOpsTest, ASwapInTakesMemoryWhenItRunsAndEndsWhenItsBytesAreThere) {
  const Tensor token = leave(7);
  EXPECT_EQ(card_.memory().held(), kSize);
  context_.let_through();
  EXPECT_EQ(card_.memory().held(), kSize);  // it is compared first
  context_.let_through();
  EXPECT_EQ(card_.memory().held(), Bytes{});
  KernelRun run(card_, *in_, token);
  EXPECT_EQ(card_.memory().held(), kSize);
  EXPECT_EQ(run.ends(), 0);
  context_.let_through();
  EXPECT_EQ(run.ends(), 0);
  context_.let_through();
  EXPECT_EQ(run.ends(), 1);
  EXPECT_TRUE(run.status().ok()) << run.status();
  EXPECT_TRUE(holds(run.take_output(), kFloats, 7));
}

TEST_F(CardSwapOpsTest, TheFirstCopyOfAPairIsCheckedAndTheNextIsNot) {
  const std::uint64_t before = CardSession::get()->copies().figures().checked;
  for (const std::uint64_t compared : {2U, 2U}) {
    const Tensor token = leave(7);
    context_.let_all_through();
    KernelRun run(card_, *in_, token);
    context_.let_all_through();
    EXPECT_EQ(run.ends(), 1);
    EXPECT_EQ(CardSession::get()->copies().figures().checked, before + compared);
  }
}

TEST_F(CardSwapOpsTest, ASwapInBeforeTheCopyHasEndedGetsTheTensorItself) {
  const Tensor token = leave(9);
  KernelRun run(card_, *in_, token);
  EXPECT_EQ(run.ends(), 1);
  EXPECT_TRUE(holds(run.take_output(), kFloats, 9));
  context_.let_all_through();
  EXPECT_EQ(card_.memory().held(), Bytes{});
}

TEST_F(CardSwapOpsTest, ACancelledStepEndsAtOnceAndTheDeviceMayAnswerLater) {
  ::tensorflow::CancellationManager manager;
  Tensor token = leave(3);
  context_.let_all_through();
  {
    KernelRun run(card_, *in_, token, &manager);
    EXPECT_EQ(run.ends(), 0);
    manager.StartCancel();
    EXPECT_EQ(run.ends(), 1);
    EXPECT_EQ(run.status().code(), absl::StatusCode::kCancelled);
  }
  token = Tensor();
  EXPECT_EQ(card_.memory().held(), kSize);  // the device may still write there
  context_.let_all_through();
  EXPECT_EQ(card_.memory().held(), Bytes{});
  EXPECT_EQ(card_.page_locked().held(), Bytes{});
}

TEST_F(CardSwapOpsTest, AStepThatWasCancelledBeforeCopiesNothing) {
  ::tensorflow::CancellationManager manager;
  const Tensor token = leave(3);
  context_.let_all_through();
  manager.StartCancel();
  KernelRun run(card_, *in_, token, &manager);
  EXPECT_EQ(run.ends(), 1);
  EXPECT_EQ(run.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(context_.waiting(), 0U);
}

TEST_F(CardSwapOpsTest, AnErrorOfTheDeviceEndsTheSwapInInASentence) {
  const Tensor token = leave(3);
  context_.let_all_through();
  KernelRun run(card_, *in_, token);
  context_.let_through(0, absl::InternalError("the stream is broken"));
  EXPECT_EQ(run.ends(), 1);
  EXPECT_EQ(run.status().message(),
            "Spillway could not bring back a tensor of 4 KiB that dense/Relu made: copying it to "
            "the card "
            "failed: the stream is broken");
}

TEST_F(CardSwapOpsTest, ASwapInThatFindsNoRoomEndsInASentence) {
  const Tensor token = leave(3);
  context_.let_all_through();
  card_.memory().set_limit(kKiB);
  KernelRun run(card_, *in_, token);
  EXPECT_EQ(run.ends(), 1);
  EXPECT_EQ(run.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(run.status().message()),
      HasSubstr("Spillway could not bring back a tensor of 4 KiB that dense/Relu made: OOM when"));
  EXPECT_TRUE(CardSession::get()->table().state().gave_up);
}

TEST_F(CardSwapOpsTest, WhatIsTooSmallGoesPast) {
  KernelRun out(card_, *out_, card_.tensor(8, 1));
  EXPECT_EQ(context_.waiting(), 0U);
  KernelRun in(card_, *in_, out.take_output());
  EXPECT_EQ(in.ends(), 1);
  EXPECT_TRUE(holds(in.take_output(), 8, 1));
}

TEST_F(CardSwapOpsTest, ATokenThatNobodyTakesGivesBackWhatItHolds) {
  { const Tensor token = leave(3); }
  context_.let_all_through();
  EXPECT_EQ(card_.memory().held(), Bytes{});
  EXPECT_EQ(card_.page_locked().held(), Bytes{});
}

TEST_F(CardSwapOpsTest, ACardWithoutTheBudgetsLimitEndsTheFirstOp) {
  FakeCard unlimited(kBudget * 4, kMiB);
  KernelRun run(unlimited, *out_, unlimited.tensor(kFloats, 1));
  EXPECT_EQ(run.ends(), 1);
  EXPECT_EQ(run.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("more than the budget of 1 MiB"));
}

TEST_F(CardSwapOpsTest, ASessionRewritesWhatIsOnTheCard) {
  testing::GraphBuilder builder;
  builder.add("source", "Const");
  std::string before = builder.add("make", "MatMul", {"source"});
  for (int i = 0; i < 12; ++i) before = builder.add_fresh("MatMul", {before});
  builder.add("user", "MatMul", {before, "make"});
  const std::string on_processor = builder.graph.serialize();
  EXPECT_FALSE(CardSession::get()->graphs().rewrite(on_processor, testing::describe_op));
  for (Node& each : builder.graph.nodes) each.device = card_.name();
  const std::uint64_t holes = CardSession::get()->table().state().holes;
  const auto rewritten =
      CardSession::get()->graphs().rewrite(builder.graph.serialize(), testing::describe_op);
  ASSERT_TRUE(rewritten);
  EXPECT_EQ(CardSession::get()->table().state().holes, holes + 1);
}

TEST(CardSettingsTest, WhatHasNoEffectOnACardIsRefusedInWords) {
  const auto refusal = [](const auto& change) {
    runtime::Settings changed = settings();
    change(changed);
    try {
      CardSession::start(changed);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refusal([](auto& s) { s.planner = "lms"; }),
              HasSubstr("TensorFlow does not have SPILLWAY_PLANNER for a budget of a card"));
  EXPECT_THAT(refusal([](auto& s) { s.disk_budget = s.budget; }),
              HasSubstr("SPILLWAY_DISK_BUDGET"));
  EXPECT_THAT(refusal([](auto& s) { s.spool_dir = "/tmp"; }), HasSubstr("SPILLWAY_SPOOL_DIR"));
  EXPECT_THAT(refusal([](auto& s) { s.mode = runtime::Mode::kRecord; }), HasSubstr("record"));
  EXPECT_THAT(refusal([](auto& s) { s.budget = runtime::parse_budget("80%", "x"); }),
              HasSubstr("a number of bytes"));
  EXPECT_THAT(refusal([](auto& s) { s.budget = runtime::parse_budget("64KiB", "x"); }),
              HasSubstr("64 KiB is too little"));
}

}  // namespace
}  // namespace spillway::tf
