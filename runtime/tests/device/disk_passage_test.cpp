// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/disk_passage.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device_fixture.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {
namespace {

class DiskPassageTest : public DeviceFixture {
 public:
  ~DiskPassageTest() override { arm_faults(""); }

 protected:
  static constexpr Bytes kSize = kGranule * 24;  // of the device memory under test
  static constexpr Bytes kChunk = kGranule * 2;
  static constexpr std::size_t kChunks = 3;

  DiskPassageTest() {
    EXPECT_TRUE(device_.reserve(kSize, kGranule.count, base_).done());
    EXPECT_TRUE(device_.create(kSize, pages_).done());
    EXPECT_TRUE(device_.map(base_, kSize, pages_).done());
    EXPECT_TRUE(device_.allow_access(base_, kSize).done());
  }

  /// Each granule gets a value of its own, on a stream.
  void write(int first, Bytes bytes) {
    for (std::uint64_t at = 0; at < bytes.count; at += kGranule.count) {
      const auto value = std::byte(first + static_cast<int>(at / kGranule.count));
      const Bytes part{std::min(kGranule.count, bytes.count - at)};
      ASSERT_TRUE(device_.fill(base_ + Bytes{at}, value, part, one_).done());
    }
  }
  /// Whether device memory holds that, when `one_` is done.
  bool holds(int first, Bytes bytes) {
    bool right = true;
    const auto look = [&](std::span<std::byte* const> at) {
      for (std::uint64_t i = 0; i < bytes.count; ++i) {
        right = right && at[0][i] == std::byte(first + static_cast<int>(i / kGranule.count));
      }
    };
    EXPECT_TRUE(device_.launch(one_, {{base_, bytes}}, look).done());
    EXPECT_TRUE(device_.synchronize_stream(one_).done());
    return right;
  }
  DiskCopy copy(Direction direction, Bytes bytes, const Extent& extent, const Fence& after = {}) {
    return {direction, base_, bytes, extent, spool_.descriptor(), after};
  }
  /// What came to be since the last time.
  std::vector<DiskNews> news() {
    std::vector<CopyNews> device_news;
    std::vector<DiskNews> told;
    transfers_.advance(device_news);
    passage_->advance(device_news, told);
    return told;
  }
  /// The next copy that is over, awaited if need be.
  DiskNews next() {
    while (told_.empty()) {
      EXPECT_TRUE(passage_->busy());
      told_ = news();
      std::this_thread::yield();
    }
    DiskNews first = std::move(told_.front());
    told_.erase(told_.begin());
    return first;
  }
  Fence now() { return clock_.fence(clock_.slot_of(one_)); }

  std::vector<DiskNews> told_;  // and not asked for yet
  DeviceAddress base_{};
  PagesHandle pages_{};
  Spool spool_{{.directory = ::testing::TempDir(), .budget = kMiB * 16, .warn = {}}};
  TransferPool disk_{2};
  PinnedHostMemory host_{clock_, kChunk* kChunks, kChunk* kChunks};
  StreamTransfers transfers_{clock_};
  std::optional<DiskPassage> passage_{std::in_place, clock_, transfers_, disk_,
                                      host_,         kChunk, kChunks};
};

TEST_F(DiskPassageTest, BytesReachTheDiskAndComeBack) {
  for (const Bytes bytes : {kSize, kGranule, kChunk, kChunk + Bytes{100}, Bytes{5}}) {
    const Extent extent = *spool_.allocate(bytes);
    write(1, bytes);
    const TransferId out = passage_->submit(copy(Direction::kOut, bytes, extent, now()));
    const DiskNews gone = next();
    EXPECT_EQ(gone.id, out);
    EXPECT_EQ(gone.stage, CopyStage::kEnded);
    write(100, bytes);
    const TransferId in = passage_->submit(copy(Direction::kIn, bytes, extent, now()));
    const DiskNews back = next();
    EXPECT_EQ(back.id, in);
    ASSERT_EQ(back.stage, CopyStage::kIssued);
    clock_.order_after(one_, back.fence);
    EXPECT_TRUE(holds(1, bytes)) << bytes.count;
    EXPECT_FALSE(passage_->busy());
  }
  EXPECT_EQ(host_.budget().used(), kChunk * kChunks);
  EXPECT_EQ(device_.pageable_copies(), 0U);
}

//   one   [held] write        OUT waits on the device, so nothing reaches the disk
TEST_F(DiskPassageTest, ACopyOutBeginsAfterItsFence) {
  const Extent extent = *spool_.allocate(kSize);
  HeldStream held(device_, one_);
  write(1, kSize);
  passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(news().empty());
  EXPECT_EQ(disk_.bytes_written(), Bytes{0});
  held.release();
  EXPECT_EQ(next().stage, CopyStage::kEnded);
  EXPECT_EQ(disk_.bytes_written(), kSize);
}

TEST_F(DiskPassageTest, CopiesInComeFirstAndWhatHasNotBegunMayBeTakenBack) {
  const Extent extent = *spool_.allocate(kSize);
  const Extent other = *spool_.allocate(kSize);
  HeldStream held(device_, one_);
  const TransferId begun = passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  EXPECT_TRUE(news().empty());
  const TransferId out = passage_->submit(copy(Direction::kOut, kSize, other));
  const TransferId second = passage_->submit(copy(Direction::kOut, kGranule, other));
  const TransferId in = passage_->submit(copy(Direction::kIn, kGranule, other));
  EXPECT_FALSE(passage_->cancel(begun)) << "all chunks are its";
  EXPECT_TRUE(passage_->cancel(out));
  EXPECT_FALSE(passage_->cancel(out));
  held.release();
  EXPECT_EQ(next().id, in);
  EXPECT_EQ(next().id, begun);
  EXPECT_EQ(next().id, second);
}

TEST_F(DiskPassageTest, AHurriedCopyOvertakes) {
  const Extent extent = *spool_.allocate(kSize);
  write(1, kSize);
  passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  EXPECT_EQ(next().stage, CopyStage::kEnded);
  const Bytes most = kSize - kGranule;
  const TransferId first = passage_->submit(copy(Direction::kIn, most, extent));
  DiskCopy last = copy(Direction::kIn, kGranule, extent);
  last.device = base_ + most;  // beside the first
  const TransferId wanted = passage_->submit(last);
  passage_->hurry(wanted);
  EXPECT_EQ(next().id, wanted);
  EXPECT_EQ(next().id, first);
}

TEST_F(DiskPassageTest, WhoNeedsTheBytesSleepsUntilTheDiskHasThem) {
  const Extent extent = *spool_.allocate(kSize);
  write(1, kSize);
  passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  next();
  passage_->wait_for_disk();  // it has nothing to do
  const TransferId in = passage_->submit(copy(Direction::kIn, kSize, extent));
  passage_->hurry(in);
  std::vector<DiskNews> told = news();
  while (told.empty()) {
    passage_->wait_for_disk();
    told = news();
  }
  EXPECT_EQ(told.front().id, in);
}

TEST_F(DiskPassageTest, AnErrorOfTheDiskIsToldOnceAllHasEnded) {
  const Extent extent = *spool_.allocate(kSize);
  write(1, kSize);
  arm_faults("spool.write=ENOSPC@2");
  const TransferId id = passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  const DiskNews failed = next();
  EXPECT_EQ(failed.id, id);
  EXPECT_EQ(failed.stage, CopyStage::kFailed);
  EXPECT_EQ(failed.error, ENOSPC);
  EXPECT_FALSE(passage_->busy());
  passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  EXPECT_EQ(next().stage, CopyStage::kEnded) << "its chunks are free again";
}

TEST_F(DiskPassageTest, ARefusedCopyOfTheDeviceIsAnErrorToo) {
  const Extent extent = *spool_.allocate(kSize);
  device_.fail(DeviceCall::kCopyOut, 2, ThreadDevice::kInvalid);
  passage_->submit(copy(Direction::kOut, kSize, extent));
  EXPECT_EQ(next().error, EIO);
  passage_->submit(copy(Direction::kOut, kSize, extent));
  EXPECT_EQ(next().stage, CopyStage::kEnded);
  device_.fail(DeviceCall::kCopyIn, 2, ThreadDevice::kInvalid);
  const TransferId in = passage_->submit(copy(Direction::kIn, kSize, extent));
  passage_->hurry(in);
  const DiskNews failed = next();
  EXPECT_EQ(failed.error, EIO);
  clock_.wait(failed.fence);
  passage_->submit(copy(Direction::kIn, kSize, extent));
  EXPECT_EQ(next().stage, CopyStage::kIssued);
}

// As where a process may have no more threads.
class NoThreads final : public Transfers {
 public:
  explicit NoThreads(Transfers& others) : others_(others) {}
  TransferId submit(Transfer transfer, TransferDone done) override {
    if (refusals_-- > 0) throw UserError("no thread can be started");
    return others_.submit(transfer, std::move(done));
  }
  bool cancel(TransferId id) override { return others_.cancel(id); }
  bool hurry(TransferId id) override { return others_.hurry(id); }
  void drain() override { others_.drain(); }
  void before_fork() override { others_.before_fork(); }
  [[nodiscard]] IoMethod method() const override { return others_.method(); }

 private:
  Transfers& others_;
  int refusals_ = 1;
};

TEST_F(DiskPassageTest, ADiskThatTakesNoCopyIsAnErrorInWords) {
  const Extent extent = *spool_.allocate(kSize);
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    NoThreads disk(disk_);
    passage_.emplace(clock_, transfers_, disk, host_, kChunk, kChunks);
    passage_->submit(copy(direction, kSize, extent, now()));
    const DiskNews failed = next();
    EXPECT_EQ(failed.error, EIO);
    EXPECT_EQ(failed.said, "no thread can be started");
    EXPECT_FALSE(failed.by_device);
    passage_->submit(copy(direction, kSize, extent, now()));
    EXPECT_NE(next().stage, CopyStage::kFailed) << "its chunks are free again";
    while (passage_->busy()) static_cast<void>(news());
    passage_.reset();
  }
  passage_.emplace(clock_, transfers_, disk_, host_, kChunk, kChunks);
}

TEST_F(DiskPassageTest, WithoutHostMemoryItFails) {
  ASSERT_NE(host_.allocate(kChunk * kChunks), nullptr);
  const Extent extent = *spool_.allocate(kSize);
  passage_->submit(copy(Direction::kOut, kSize, extent));
  EXPECT_EQ(next().error, ENOMEM);
}

TEST_F(DiskPassageTest, EndsInTheMiddle) {
  const Extent extent = *spool_.allocate(kSize);
  passage_->submit(copy(Direction::kOut, kSize, extent, now()));
  EXPECT_TRUE(news().empty());
  passage_.reset();
  EXPECT_EQ(host_.used(), Bytes{0});
}

}  // namespace
}  // namespace spillway::runtime
