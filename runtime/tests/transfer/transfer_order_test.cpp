// SPDX-License-Identifier: Apache-2.0
// The order of starting, cancelling, and the choice of the implementation.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "in_child.hpp"
#include "spillway/base/error.hpp"
#include "transfers_fixture.hpp"

namespace spillway::runtime {
namespace {

class TransferPlacesTest : public TransfersTest {};

INSTANTIATE_TEST_SUITE_P(Each, TransferPlacesTest, testing::ValuesIn(methods()), name_of);

/// Keeps the only thread of narrow transfers inside a completion until told to go on, so that what
/// is submitted meanwhile waits together.
class Gate {
 public:
  Gate(Transfers& transfers, int descriptor) {
    transfers.submit({Direction::kIn, nullptr, {}, descriptor, 0}, [this](const TransferResult&) {
      inside_.set_value();
      open_.get_future().wait();
    });
    inside_.get_future().wait();
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> inside_;
  std::promise<void> open_;
};

class TransferOrderTest : public TransfersTest {
 protected:
  TransferOrderTest() : block_(2 * kTransferChunk), extent_(extent_for(block_)) { block_.fill(3); }

  TransferId submit(Direction direction, char name) {
    return transfers_->submit(transfer(direction, block_, extent_),
                              [this, name](const TransferResult&) {
                                const std::lock_guard lock(mutex_);
                                order_ += name;
                              });
  }
  std::string order() {
    transfers_->drain();
    return order_;
  }

  Block block_;
  Extent extent_;
  std::mutex mutex_;
  std::string order_;
  std::unique_ptr<Transfers> transfers_ = make_one(Width::kNarrow);
};

INSTANTIATE_TEST_SUITE_P(Each, TransferOrderTest, testing::ValuesIn(methods()), name_of);

TEST_P(TransferOrderTest, ReadsStartBeforeWrites) {
  Gate gate(*transfers_, spool_.descriptor());
  submit(Direction::kOut, 'a');
  submit(Direction::kOut, 'b');
  submit(Direction::kIn, 'C');
  submit(Direction::kIn, 'D');
  gate.open();
  EXPECT_EQ(order(), "CDab");
}

TEST_P(TransferOrderTest, APriorityThatIsStatedCounts) {
  Gate gate(*transfers_, spool_.descriptor());
  Transfer early = transfer(Direction::kIn, block_, extent_);
  early.priority = Priority::kBackground;
  transfers_->submit(early, [this](const TransferResult&) { order_ += 'a'; });
  Transfer waited_for = transfer(Direction::kOut, block_, extent_);
  waited_for.priority = Priority::kUrgent;
  transfers_->submit(waited_for, [this](const TransferResult&) { order_ += 'B'; });
  gate.open();
  EXPECT_EQ(order(), "Ba");
}

TEST_P(TransferOrderTest, WhatIsHurriedComesFirst) {
  Gate gate(*transfers_, spool_.descriptor());
  submit(Direction::kOut, 'a');
  const TransferId b = submit(Direction::kOut, 'b');
  submit(Direction::kIn, 'C');
  const TransferId d = submit(Direction::kIn, 'D');
  transfers_->hurry(d);
  transfers_->hurry(b);
  gate.open();
  EXPECT_EQ(order(), "bDCa");
  transfers_->hurry(b);  // long done
}

// The first chunk of `a` is under way when C comes; its second gives way.
TEST_P(TransferOrderTest, AReadOvertakesAWriteThatHasBegun) {
  arm_faults("spool.write=delay:100ms@1+");
  submit(Direction::kOut, 'a');
  // Comes too early where the machine is busy; that makes the test weaker, not wrong.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  submit(Direction::kIn, 'C');
  EXPECT_EQ(order(), "Ca");
}

TEST_P(TransferPlacesTest, AReadFindsAPlaceAmongManyWrites) {
  const auto transfers = make_one();
  Block block(64 * kExtentGranule);
  Block back(block.bytes());
  const Extent extent = extent_for(block);
  ASSERT_EQ(run(*transfers, transfer(Direction::kOut, block, extent)).error, 0);
  arm_faults("spool.write=delay:200ms@1+");
  std::atomic<int> written{0};
  bool overtook = false;
  // Once is enough: a machine that stands still for so long lets writes end first.
  for (int attempt = 0; attempt < 3 && !overtook; ++attempt) {
    written = 0;
    for (int i = 0; i < 12; ++i) {
      transfers->submit(transfer(Direction::kOut, block, extent),
                        [&written](const TransferResult&) { ++written; });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(run(*transfers, transfer(Direction::kIn, back, extent)).error, 0);
    overtook = written.load() == 0;
    transfers->drain();
    EXPECT_EQ(written.load(), 12);
  }
  EXPECT_TRUE(overtook) << "the read waited for a write";
}

TEST_P(TransferPlacesTest, WhatHasNotStartedCanBeTakenBack) {
  const auto transfers = make_one(Width::kNarrow);
  Block block(2 * kTransferChunk);
  const Extent extent = extent_for(block);
  Gate gate(*transfers, spool_.descriptor());
  auto owned = std::make_shared<int>(0);
  const auto done = [owned](const TransferResult&) { ++*owned; };
  const TransferId write = transfers->submit(transfer(Direction::kOut, block, extent), done);
  const TransferId read = transfers->submit(transfer(Direction::kIn, block, extent), done);
  EXPECT_EQ(owned.use_count(), 4);  // ours, that of `done`, and two
  EXPECT_TRUE(transfers->cancel(write));
  EXPECT_TRUE(transfers->cancel(read));
  EXPECT_EQ(owned.use_count(), 2) << "completions are gone when cancel returns";
  EXPECT_FALSE(transfers->cancel(write)) << "only once";
  EXPECT_FALSE(transfers->cancel(12'345'678));
  gate.open();
  transfers->drain();
  EXPECT_EQ(*owned, 0);
  EXPECT_EQ(transfers->bytes_written(), Bytes{0});
}

// These take another way through io_uring's implementation. Four threads take at most four.
TEST_P(TransferPlacesTest, OddOnesCanBeTakenBackToo) {
  arm_faults("spool.write=delay:50ms@1+");
  const auto transfers = make_one();
  Block odd(77, 3);
  const Extent extent = extent_for(odd);
  std::atomic<int> calls{0};
  TransferId last = 0;
  for (int i = 0; i < 5; ++i) {
    last = transfers->submit(transfer(Direction::kOut, odd, extent),
                             [&calls](const TransferResult&) { ++calls; });
  }
  EXPECT_TRUE(transfers->cancel(last));
  EXPECT_FALSE(transfers->cancel(last));
  transfers->drain();
  EXPECT_EQ(calls.load(), 4);
}

TEST_P(TransferPlacesTest, WhatHasStartedCannotBeTakenBack) {
  arm_faults("spool.write=delay:50ms@1+");
  const auto transfers = make_one(Width::kNarrow);
  Block block(3 * kTransferChunk);
  std::atomic<int> calls{0};
  const TransferId id = transfers->submit(transfer(Direction::kOut, block, extent_for(block)),
                                          [&calls](const TransferResult&) { ++calls; });
  while (transfers->bytes_written() == Bytes{0}) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(transfers->cancel(id));
  transfers->drain();
  EXPECT_EQ(calls.load(), 1);
  EXPECT_EQ(transfers->bytes_written(), Bytes{block.bytes()});
  EXPECT_FALSE(transfers->cancel(id)) << "it has ended";
}

// As a container does it: from now on io_uring_setup fails with EPERM.
bool forbid_io_uring() {
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(MakeTransfersTest, TakesThreadsWhereIoUringIsForbidden) {
  const int status = in_child([] {
    if (!forbid_io_uring()) return 1;
    if (io_uring_refusal().find(SPILLWAY_HAS_IO_URING ? "forbidden" : "liburing") ==
        std::string::npos) {
      return 2;
    }
    if (make_transfers(IoMethod::kAuto)->method() != IoMethod::kThreads) return 3;
    try {
      make_transfers(IoMethod::kUring);
      return 4;
    } catch (const UserError& error) {
      const std::string text = error.what();
      return text.find("SPILLWAY_IO") != std::string::npos &&
                     text.find(io_uring_refusal()) != std::string::npos
                 ? 0
                 : 5;
    }
  });
  EXPECT_EQ(status, 0);
}

TEST(MakeTransfersTest, TakesWhatIsAskedFor) {
  EXPECT_EQ(make_transfers(IoMethod::kThreads)->method(), IoMethod::kThreads);
  const bool allowed = io_uring_refusal().empty();
  EXPECT_EQ(make_transfers(IoMethod::kAuto)->method(),
            allowed ? IoMethod::kUring : IoMethod::kThreads);
}

#if SPILLWAY_HAS_IO_URING
// Refused between making the transfers and their first use: plain calls on the same thread.
TEST(TransferRingTest, ARefusalThatComesLateIsNoError) {
  Spool spool({testing::TempDir(), kGiB, {}});
  const int status = in_child([&spool] {
    TransferRing ring;
    Block block(2 * kTransferChunk);
    block.fill(5);
    const std::uint64_t before = block.hash();
    const Extent extent = spool.allocate({block.bytes()}).value();
    if (!forbid_io_uring()) return 1;
    const Transfer out{Direction::kOut, block.data(), extent, spool.descriptor(), block.bytes()};
    if (run(ring, out).error != 0) return 2;
    block.clear();
    Transfer in = out;
    in.direction = Direction::kIn;
    return run(ring, in).error == 0 && block.hash() == before ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace spillway::runtime
