// SPDX-License-Identifier: Apache-2.0
#include "explain/storage_uses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Ops of 1, 2, 4, ... ns, so that a sum tells which they are.
class StorageUsesTest : public ::testing::Test {
 protected:
  StorageUsesTest() {
    const auto storage = [&](std::uint64_t bytes, bool persistent) {
      return trace_.add(TraceStorage{.bytes = Bytes{bytes}, .persistent = persistent});
    };
    weight_ = storage(1, true);
    unused_ = storage(2, true);
    input_ = storage(4, false);
    hidden_ = storage(8, false);
    last_ = storage(16, false);
    result_ = trace_.add(TraceStorage{.bytes = Bytes{16}, .continues = last_});
    trace_.add(TraceOp{.duration_ns = 1, .reads = {weight_}});
    trace_.add(TraceOp{
        .duration_ns = 2, .reads = {input_, last_}, .writes = {hidden_}, .creates = {hidden_}});
    trace_.add(TraceOp{.duration_ns = 4, .workspace = Bytes{100}});
    trace_.add(TraceOp{.duration_ns = 8, .reads = {hidden_}, .frees = {hidden_, input_, last_}});
    trace_.add(TraceOp{.duration_ns = 16, .writes = {result_}, .creates = {result_}});
    trace_.add(TraceOp{.duration_ns = 32, .reads = {weight_}, .writes = {weight_}});
    EXPECT_EQ(validate(trace_), std::nullopt);
  }

  [[nodiscard]] TimeNs idle(StorageId storage, std::size_t op) const {
    return StorageUses(trace_).around(storage, OpIndex{op}).ns;
  }

  Trace trace_;
  StorageId weight_{}, unused_{}, input_{}, hidden_{}, last_{}, result_{};
};

TEST_F(StorageUsesTest, AnOpUsesWhatItCreatesReadsAndWritesOnce) {
  const StorageUses uses(trace_);
  EXPECT_THAT(uses.of(weight_), ElementsAre(0U, 5U));
  EXPECT_THAT(uses.of(hidden_), ElementsAre(1U, 3U));
  EXPECT_THAT(uses.of(input_), ElementsAre(1U)) << "to free is no use";
  EXPECT_THAT(uses.of(unused_), IsEmpty());
}

TEST_F(StorageUsesTest, BetweenUsesItIsIdle) {
  for (const std::size_t op : {1U, 3U, 5U}) EXPECT_EQ(idle(weight_, op), 2 + 4 + 8 + 16) << op;
  EXPECT_EQ(idle(hidden_, 2), 4);
  EXPECT_EQ(idle(input_, 2), 4) << "until it is freed";
}

TEST_F(StorageUsesTest, AcrossTheEndOfTheStepItIsIdleUnderItsNextName) {
  trace_.ops.duration_ns[5] = 0;
  const Trace without_tail = trace_;
  trace_.add(TraceOp{.duration_ns = 64});
  for (const std::size_t op : {6U, 7U, 0U}) EXPECT_EQ(idle(weight_, op), 64) << op;
  EXPECT_EQ(StorageUses(without_tail).around(weight_, OpIndex{6}).ns, 0);
  EXPECT_EQ(idle(result_, 5), 64 + 1);
  EXPECT_EQ(idle(last_, 0), 64 + 1);
  EXPECT_EQ(idle(unused_, 3), 1 + 2 + 4 + 8 + 16 + 64);
}

TEST_F(StorageUsesTest, TheLongestEndsWithAUse) {
  const StorageUses uses(trace_);
  EXPECT_EQ(uses.longest(weight_), (IdleStretch{1, 5, false, 30}));
  EXPECT_EQ(uses.longest(hidden_), (IdleStretch{2, 3, false, 4}));
  EXPECT_EQ(uses.longest(input_), (IdleStretch{0, 1, false, 1}));
  EXPECT_EQ(uses.longest(result_), std::nullopt);
  EXPECT_EQ(uses.longest(unused_), std::nullopt);
  trace_.add(TraceOp{.duration_ns = 64});
  EXPECT_EQ(StorageUses(trace_).longest(weight_), (IdleStretch{6, 0, true, 64}));
}

TEST_F(StorageUsesTest, WhatIsAliveThenIsWithoutAPlan) {
  const StorageUses uses(trace_);
  EXPECT_EQ(uses.most_alive({2, 3, false, 4}), Bytes{1 + 2 + 4 + 8 + 16 + 100});
  EXPECT_EQ(uses.most_alive({5, 1, true, 33}), Bytes{1 + 2 + 4 + 16});
}

}  // namespace
}  // namespace spillway::tools
