// SPDX-License-Identifier: Apache-2.0
#include "card_copies.hpp"

#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "card_memory.hpp"
#include "fake_card.hpp"

namespace spillway::tf {
namespace {

using ::tensorflow::Tensor;
using testing::CountingAllocator;
using testing::FakeCard;
using testing::FakeContext;
using ::testing::HasSubstr;
using testing::holds;

constexpr int kFloats = 1024;
constexpr Bytes kSize = kKiB * 4;

struct OutEnd {
  std::shared_ptr<CardCopy> copy;
  std::string reason;
};

class CardCopiesTest : public ::testing::Test {
 protected:
  CardLink link() { return CardLink::of(card_.context(), card_); }

  /// A tensor that nobody else holds leaves. Its end is in what is returned.
  std::shared_ptr<std::optional<OutEnd>> leave(float first, bool checked = false) {
    held_.push_back(
        std::make_unique<HeldCardTensor>(card_.tensor(kFloats, first), link(), checked));
    auto end = std::make_shared<std::optional<OutEnd>>();
    copies_.swap_out(
        *held_.back(), kSize,
        [this, end, held = held_.back().get()](const std::shared_ptr<Copy>& copy,
                                               const std::string& reason) {
          *end = OutEnd{std::static_pointer_cast<CardCopy>(copy), reason};
          std::erase_if(held_, [held](const auto& mine) { return mine.get() == held; });
        },
        "dense/Relu");
    return end;
  }

  std::shared_ptr<std::optional<std::string>> bring_back(const std::shared_ptr<CardCopy>& copy,
                                                         const Tensor& place) {
    auto end = std::make_shared<std::optional<std::string>>();
    copies_.bring_back(copy, link(), place, [end](const std::string& reason) { *end = reason; });
    return end;
  }

  Tensor place() { return {&card_.memory(), ::tensorflow::DT_FLOAT, {kFloats}}; }

  FakeCard card_{kMiB, kMiB};
  FakeContext& context_ = card_.context();
  CardCopies copies_{kMiB};
  std::vector<std::unique_ptr<HeldCardTensor>> held_;
};

TEST_F(CardCopiesTest, ATensorKeepsItsMemoryUntilItsCopyHasEndedAndComesBack) {
  const auto out = leave(3);
  EXPECT_FALSE(out->has_value());
  EXPECT_EQ(card_.memory().held(), kSize);
  context_.let_through();
  ASSERT_TRUE(out->has_value());
  EXPECT_EQ(card_.memory().held(), Bytes{});
  EXPECT_EQ(copies_.figures().host, kSize);
  const Tensor back = place();
  const auto in = bring_back((*out)->copy, back);
  EXPECT_FALSE(in->has_value());
  context_.let_through();
  EXPECT_EQ(in->value(), "");
  EXPECT_TRUE(holds(back, kFloats, 3));
  EXPECT_EQ(copies_.figures().out, kSize);
  EXPECT_EQ(copies_.figures().in, kSize);
  out->reset();
  EXPECT_EQ(copies_.figures().host, Bytes{});
  EXPECT_EQ(card_.page_locked().held(), Bytes{});
}

TEST_F(CardCopiesTest, CopiesMayEndInAnyOrder) {
  const auto first = leave(100);
  const auto second = leave(200);
  const auto third = leave(300);
  for (const std::size_t next : {2U, 0U, 0U}) context_.let_through(next);
  const Tensor places[] = {place(), place(), place()};
  bring_back((*first)->copy, places[0]);
  bring_back((*second)->copy, places[1]);
  bring_back((*third)->copy, places[2]);
  for (const std::size_t next : {1U, 1U, 0U}) context_.let_through(next);
  EXPECT_TRUE(holds(places[0], kFloats, 100));
  EXPECT_TRUE(holds(places[1], kFloats, 200));
  EXPECT_TRUE(holds(places[2], kFloats, 300));
}

TEST_F(CardCopiesTest, AnErrorOfTheDeviceComesAsAReasonAndKeepsNoMemory) {
  const auto out = leave(1);
  context_.let_through(0, absl::InternalError("the stream is broken"));
  EXPECT_EQ((*out)->copy, nullptr);
  EXPECT_EQ((*out)->reason, "copying it from the card failed: the stream is broken");
  EXPECT_EQ(card_.page_locked().held(), Bytes{});
  const auto good = leave(2);
  context_.let_through();
  const auto in = bring_back((*good)->copy, place());
  context_.let_through(0, absl::InternalError("the stream is broken"));
  EXPECT_EQ(in->value(), "copying it to the card failed: the stream is broken");
  EXPECT_EQ(card_.memory().held(), Bytes{});
  EXPECT_EQ(copies_.figures().failed, 2U);
}

TEST_F(CardCopiesTest, WhatIsUnderWayLivesUntilTheDeviceHasAnswered) {
  const auto out = leave(1);
  context_.let_through();
  std::optional<Tensor> back(place());
  const auto in = bring_back((*out)->copy, *back);
  back.reset();
  out->reset();
  EXPECT_EQ(card_.memory().held(), kSize);
  EXPECT_EQ(card_.page_locked().held(), kSize);
  context_.let_through();
  EXPECT_EQ(card_.memory().held(), Bytes{});
  EXPECT_EQ(card_.page_locked().held(), Bytes{});
}

TEST_F(CardCopiesTest, AFullHostBudgetSaysHowMuchIsShort) {
  CardCopies copies(kKiB * 6);
  const HeldCardTensor held(card_.tensor(kFloats, 1), link(), false);
  std::string reason;
  std::shared_ptr<Copy> first;
  copies.swap_out(
      held, kSize, [&](std::shared_ptr<Copy> copy, const std::string&) { first = std::move(copy); },
      "");
  copies.swap_out(
      held, kSize, [&](const auto&, const std::string& why) { reason = why; }, "");
  EXPECT_THAT(reason, HasSubstr("need 4 KiB, have 2 KiB of 6 KiB"));
  EXPECT_THAT(reason, HasSubstr("SPILLWAY_HOST_BUDGET"));
  context_.let_through();
  EXPECT_NE(first, nullptr);
  first.reset();
  EXPECT_EQ(copies.figures().host, Bytes{});
}

TEST_F(CardCopiesTest, WithoutPageLockedMemoryATensorStays) {
  card_.page_locked().set_limit(kKiB);
  const auto out = leave(1);
  EXPECT_THAT((*out)->reason, HasSubstr("4 KiB of page-locked memory"));
  EXPECT_EQ(copies_.figures().host, Bytes{});
}

TEST_F(CardCopiesTest, ACheckedTensorIsComparedOnItsWayOutAndBack) {
  const auto out = leave(5, true);
  context_.let_through();
  EXPECT_FALSE(out->has_value());  // it is copied out once more
  context_.let_through();
  ASSERT_NE((*out)->copy, nullptr);
  EXPECT_EQ(copies_.figures().host, kSize);
  const Tensor back = place();
  const auto in = bring_back((*out)->copy, back);
  context_.let_through();
  EXPECT_FALSE(in->has_value());
  context_.let_through();
  EXPECT_EQ(in->value(), "");
  EXPECT_TRUE(holds(back, kFloats, 5));
  EXPECT_EQ(copies_.figures().checked, 2U);
}

// As where the copy did not wait for the op that makes the tensor.
TEST_F(CardCopiesTest, ACopyThatRanAheadIsFoundAndNoTensorLeavesAnyMore) {
  const auto out = leave(5, true);
  context_.let_through_wrong();
  context_.let_through();
  EXPECT_EQ((*out)->copy, nullptr);
  EXPECT_THAT((*out)->reason, HasSubstr("dense/Relu has other bytes after a copy"));
  const auto next = leave(6);
  EXPECT_EQ((*next)->copy, nullptr);
  EXPECT_EQ((*next)->reason, "");
  EXPECT_EQ(context_.waiting(), 0U);
}

TEST_F(CardCopiesTest, WrongBytesOnTheWayBackAreFound) {
  const auto out = leave(5, true);
  context_.let_all_through();
  const auto in = bring_back((*out)->copy, place());
  context_.let_through_wrong();
  context_.let_through();
  EXPECT_THAT(in->value(), HasSubstr("dense/Relu has other bytes after a copy"));
}

TEST_F(CardCopiesTest, AComparisonThatFindsNoMemoryIsLeftOut) {
  card_.page_locked().set_limit(kSize);
  const auto out = leave(5, true);
  context_.let_through();
  ASSERT_NE((*out)->copy, nullptr);
  const Tensor back = place();
  const auto in = bring_back((*out)->copy, back);
  context_.let_through();
  EXPECT_EQ(in->value(), "");
  EXPECT_TRUE(holds(back, kFloats, 5));
  EXPECT_EQ(copies_.figures().checked, 0U);
}

TEST_F(CardCopiesTest, WhatIsNotCheckedIsCopiedOnce) {
  const auto out = leave(5);
  context_.let_through_wrong();
  EXPECT_NE((*out)->copy, nullptr);
  EXPECT_EQ(copies_.figures().checked, 0U);
}

TEST(CardMemoryTest, AnAllocatorThatMayHoldMoreThanTheBudgetIsRefusedInWords) {
  CardMemory memory(kMiB);
  CountingAllocator within(kMiB);
  CountingAllocator beyond(kMiB * 3);
  EXPECT_EQ(memory.meet(within), "");
  EXPECT_THAT(
      memory.meet(beyond),
      HasSubstr("TensorFlow may hold 3 MiB on GPU:0, which is more than the budget of 1 MiB"));
}

TEST(CardMemoryTest, ThePeakIsTakenStepByStepAndKeptAsAWhole) {
  CardMemory memory(kMiB);
  EXPECT_EQ(memory.take_peak(), Bytes{});
  CountingAllocator allocator(kMiB);
  EXPECT_EQ(memory.meet(allocator), "");
  allocator.DeallocateRaw(allocator.AllocateRaw(64, kKiB.count * 8));
  EXPECT_EQ(memory.take_peak(), kKiB * 8);
  allocator.DeallocateRaw(allocator.AllocateRaw(64, kKiB.count));
  EXPECT_EQ(memory.take_peak(), kKiB);
  EXPECT_EQ(memory.usage().peak_live, kKiB * 8);
  EXPECT_EQ(memory.usage().live, Bytes{});
}

}  // namespace
}  // namespace spillway::tf
