// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_transfers.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>
#include <optional>
#include <vector>

#include "device_fixture.hpp"
#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

class StreamTransfersTest : public DeviceFixture {
 public:
  ~StreamTransfersTest() override {
    transfers_.reset();
    static_cast<void>(device_.unregister_host(host_));  // a lost device refuses
    munmap(host_, (kGranule * kCount).count);
  }

 protected:
  static constexpr std::uint64_t kCount = 8;

  StreamTransfersTest() {
    EXPECT_TRUE(device_.reserve(kGranule * kCount, kGranule.count, base_).done());
    EXPECT_TRUE(device_.create(kGranule * kCount, pages_).done());
    EXPECT_TRUE(device_.map(base_, kGranule * kCount, pages_).done());
    EXPECT_TRUE(device_.allow_access(base_, kGranule * kCount).done());
    void* const memory = mmap(nullptr, (kGranule * kCount).count, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    host_ = static_cast<std::byte*>(memory);
    EXPECT_TRUE(device_.register_host(host_, kGranule * kCount).done());
  }

  std::byte* host(std::uint64_t index) { return host_ + (kGranule * index).count; }
  DeviceCopy copy(Direction direction, std::uint64_t index, const Fence& after = {}) {
    return {direction, base_ + kGranule * index, host(index), kGranule, after};
  }
  /// Ids of the news of a stage, since the last time any were asked for.
  std::vector<TransferId> news(CopyStage stage) {
    std::vector<CopyNews> all;
    transfers_->advance(all);
    std::vector<TransferId> ids;
    for (const CopyNews& one : all) {
      if (one.stage == stage) ids.push_back(one.id);
    }
    return ids;
  }
  Fence now(DeviceStream stream) { return clock_.fence(clock_.slot_of(stream)); }

  DeviceAddress base_{};
  PagesHandle pages_{};
  std::byte* host_ = nullptr;
  std::optional<StreamTransfers> transfers_{std::in_place, clock_};
};

TEST_F(StreamTransfersTest, BytesGoOutAndComeBack) {
  ASSERT_TRUE(device_.fill(base_, std::byte{3}, kGranule, one_).done());
  const TransferId out = transfers_->submit(copy(Direction::kOut, 0, now(one_)));
  EXPECT_EQ(news(CopyStage::kIssued), std::vector{out});
  ASSERT_TRUE(transfers_->wait_for_one(Direction::kOut));
  EXPECT_EQ(news(CopyStage::kEnded), std::vector{out});
  EXPECT_EQ(host(0)[kGranule.count - 1], std::byte{3});
  std::memset(host(1), 4, kGranule.count);
  const TransferId in = transfers_->submit(copy(Direction::kIn, 1));
  EXPECT_EQ(news(CopyStage::kIssued), std::vector{in});
  ASSERT_TRUE(transfers_->wait_for_one(Direction::kIn));
  EXPECT_EQ(news(CopyStage::kEnded), std::vector{in});
  EXPECT_FALSE(transfers_->busy());
  EXPECT_EQ(transfers_->copied_out(), kGranule);
  EXPECT_EQ(transfers_->copied_in(), kGranule);
  std::byte seen{};
  ASSERT_TRUE(device_
                  .launch(one_, {{base_ + kGranule, kGranule}},
                          [&](std::span<std::byte* const> at) { seen = at[0][0]; })
                  .done());
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(seen, std::byte{4});
}

//   one   [held] write          OUT waits on the device; the host goes on
TEST_F(StreamTransfersTest, ACopyBeginsAfterItsFence) {
  HeldStream held(device_, one_);
  ASSERT_TRUE(device_.fill(base_, std::byte{6}, kGranule, one_).done());
  transfers_->submit(copy(Direction::kOut, 0, now(one_)));
  std::memset(host(0), 0, kGranule.count);
  EXPECT_EQ(news(CopyStage::kIssued).size(), 1U);
  EXPECT_TRUE(news(CopyStage::kEnded).empty());
  held.release();
  transfers_->wait_for_one(Direction::kOut);
  EXPECT_EQ(host(0)[0], std::byte{6});
}

TEST_F(StreamTransfersTest, TwoAreInFlightAndTheOthersMayBeTakenBack) {
  HeldStream held(device_, one_);
  std::vector<TransferId> ids;
  for (std::uint64_t i = 0; i < 5; ++i) {
    ids.push_back(transfers_->submit(copy(Direction::kOut, i, now(one_))));
  }
  EXPECT_EQ(news(CopyStage::kIssued), (std::vector{ids[0], ids[1]}));
  EXPECT_FALSE(transfers_->cancel(ids[1])) << "it is in the stream";
  EXPECT_TRUE(transfers_->cancel(ids[3]));
  EXPECT_FALSE(transfers_->cancel(ids[3]));
  EXPECT_TRUE(news(CopyStage::kIssued).empty());
  held.release();
  std::vector<TransferId> issued;
  while (transfers_->busy()) {
    transfers_->wait_for_one(Direction::kOut);
    for (const TransferId id : news(CopyStage::kIssued)) issued.push_back(id);
  }
  EXPECT_EQ(issued, (std::vector{ids[2], ids[4]}));
}

TEST_F(StreamTransfersTest, AHurriedCopyOvertakesAllThatWait) {
  HeldStream held(device_, one_);
  for (std::uint64_t i = 0; i < 4; ++i) transfers_->submit(copy(Direction::kIn, i, now(one_)));
  std::memset(host(5), 8, kGranule.count);
  const TransferId wanted = transfers_->submit(copy(Direction::kIn, 5));
  EXPECT_EQ(news(CopyStage::kIssued).size(), 2U);
  const auto fence = transfers_->hurry(wanted);
  ASSERT_TRUE(fence);
  clock_.wait(*fence);  // though the others are held
  EXPECT_EQ(news(CopyStage::kEnded), std::vector{wanted});
  EXPECT_THROW(transfers_->hurry(wanted), InternalError) << "it is not queued any more";
  held.release();
}

// Copies that nobody waits for would take their share of the link.
TEST_F(StreamTransfersTest, NoneIsIssuedBesideTwoThatWereHurried) {
  HeldStream held(device_, one_);
  std::vector<TransferId> ids;
  for (std::uint64_t i = 0; i < 4; ++i) {
    ids.push_back(transfers_->submit(copy(Direction::kIn, i, now(one_))));
  }
  ASSERT_TRUE(transfers_->hurry(ids[0]));
  ASSERT_TRUE(transfers_->hurry(ids[1]));
  EXPECT_TRUE(news(CopyStage::kIssued).empty());
  const TransferId out = transfers_->submit(copy(Direction::kOut, 5));
  EXPECT_EQ(news(CopyStage::kIssued), std::vector{out}) << "the other way is free";
  held.release();
  ASSERT_TRUE(device_.synchronize().done());
  EXPECT_EQ(news(CopyStage::kIssued), (std::vector{ids[2], ids[3]}));
}

TEST_F(StreamTransfersTest, ARefusedCopyIsNewsAndLosesNothing) {
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  const TransferId refused = transfers_->submit(copy(Direction::kIn, 0));
  const TransferId other = transfers_->submit(copy(Direction::kIn, 1));
  std::vector<CopyNews> all;
  transfers_->advance(all);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].id, refused);
  EXPECT_EQ(all[0].stage, CopyStage::kFailed);
  EXPECT_EQ(all[1].id, other);
  EXPECT_EQ(all[1].stage, CopyStage::kIssued);
  device_.fail(DeviceCall::kCopyIn, 1, ThreadDevice::kInvalid);
  EXPECT_FALSE(transfers_->hurry(transfers_->submit(copy(Direction::kIn, 0))));
}

TEST_F(StreamTransfersTest, ALostDeviceEndsInWords) {
  HeldStream held(device_, one_);
  transfers_->submit(copy(Direction::kOut, 0));
  device_.lose();
  std::vector<CopyNews> all;
  EXPECT_THROW(transfers_->advance(all), DeviceFailure);
  held.release();
}

}  // namespace
}  // namespace spillway::runtime
