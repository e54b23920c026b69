// SPDX-License-Identifier: Apache-2.0
// One suite for every implementation of Transfers.
#include "spillway/runtime/transfer/transfers.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "spillway/base/error.hpp"
#include "transfers_fixture.hpp"

namespace spillway::runtime {
namespace {

INSTANTIATE_TEST_SUITE_P(Each, TransfersTest, testing::ValuesIn(methods()), name_of);

TEST_P(TransfersTest, BytesComeBackWhateverLengthAndAddress) {
  const auto transfers = make_one();
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{4097},
        kTransferChunk - 1, kTransferChunk, kTransferChunk + 1, 3 * kTransferChunk + 12345,
        3 * kTransferChunk + 8192}) {
    for (const std::uint64_t shift : {0U, 1U, 64U, 4095U}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes at odd address +" << shift);
      Block block(bytes, shift);
      round_trip(*transfers, block);
    }
  }
}

// The bytes behind an extent belong to somebody else.
TEST_P(TransfersTest, PaddingStaysInsideTheExtent) {
  const auto transfers = make_one();
  Block first(kExtentGranule + 1);
  Block second(kExtentGranule);
  first.fill(1);
  second.fill(2);
  const std::uint64_t before = second.hash();
  const Extent a = extent_for(first);
  const Extent b = extent_for(second);
  ASSERT_EQ(a.offset + a.bytes, b.offset);
  EXPECT_EQ(run(*transfers, transfer(Direction::kOut, second, b)).error, 0);
  EXPECT_EQ(run(*transfers, transfer(Direction::kOut, first, a)).error, 0);
  second.clear();
  EXPECT_EQ(run(*transfers, transfer(Direction::kIn, second, b)).error, 0);
  EXPECT_EQ(second.hash(), before);
}

// Not what lay in our memory before.
TEST_P(TransfersTest, PaddingOfDirectWritesIsZero) {
  Block odd(1);
  odd.fill(1);
  Block whole(kExtentGranule);
  whole.fill(2);
  const Extent extent = extent_for(odd);
  if (!spool_.direct_io()) {
    GTEST_SKIP() << "buffered writes are not padded";
  }
  const auto transfers = make_one(Width::kNarrow);
  ASSERT_EQ(run(*transfers, transfer(Direction::kOut, whole, extent)).error, 0);
  ASSERT_EQ(run(*transfers, transfer(Direction::kOut, odd, extent)).error, 0);
  ASSERT_EQ(run(*transfers, transfer(Direction::kIn, whole, extent)).error, 0);
  EXPECT_EQ(whole.data()[0], odd.data()[0]);
  const auto is_zero = [](std::byte value) { return value == std::byte{0}; };
  EXPECT_TRUE(std::all_of(whole.data() + 1, whole.data() + whole.bytes(), is_zero));
}

TEST_P(TransfersTest, BufferedDescriptorsWork) {
  spool_.ensure_open();
  const int flags = ::fcntl(spool_.descriptor(), F_GETFL);
  ASSERT_EQ(::fcntl(spool_.descriptor(), F_SETFL, flags & ~O_DIRECT), 0);
  const auto transfers = make_one();
  Block block(2 * kTransferChunk + 77, 3);
  round_trip(*transfers, block);
}

TEST_P(TransfersTest, NothingToMoveStillCompletes) {
  const auto transfers = make_one();
  spool_.ensure_open();
  const TransferResult result =
      run(*transfers, {Direction::kOut, nullptr, {}, spool_.descriptor(), 0});
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(result.bytes, 0U);
}

TEST_P(TransfersTest, RunHereDoesTheSame) {
  const auto transfers = make_one();
  Block block(kTransferChunk + 5, 1);
  block.fill(9);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  EXPECT_EQ(transfers->run_here(transfer(Direction::kOut, block, extent)).error, 0);
  block.clear();
  const TransferResult in = transfers->run_here(transfer(Direction::kIn, block, extent));
  EXPECT_EQ(in.error, 0);
  EXPECT_EQ(in.bytes, block.bytes());
  EXPECT_EQ(block.hash(), before);
}

TEST_P(TransfersTest, CountsWhatWasMoved) {
  const auto transfers = make_one();
  Block block(kTransferChunk + 100);
  round_trip(*transfers, block);
  EXPECT_EQ(transfers->bytes_written(), Bytes{block.bytes()});
  EXPECT_EQ(transfers->bytes_read(), Bytes{block.bytes()});
}

TEST_P(TransfersTest, RefusesATransferThatDoesNotFitItsExtent) {
  const auto transfers = make_one();
  Block block(2 * kExtentGranule);
  bool called = false;
  const auto done = [&called](const TransferResult&) { called = true; };
  EXPECT_THROW(transfers->submit(transfer(Direction::kOut, block, {0, kExtentGranule}), done),
               InternalError);
  EXPECT_THROW(transfers->submit(transfer(Direction::kOut, block, {512, 4 * kExtentGranule}), done),
               InternalError);
  transfers->drain();
  EXPECT_FALSE(called);
}

TEST_P(TransfersTest, ShortAndInterruptedCallsAreCarriedOn) {
  for (const char* faults : {"spool.write=short@1+, spool.read=short@1+", "spool.write=short@2",
                             "spool.write=EINTR@1, spool.read=EINTR@2"}) {
    for (const std::uint64_t shift : {0U, 7U}) {  // whole granules, and not
      SCOPED_TRACE(testing::Message() << faults << " +" << shift);
      arm_faults(faults);
      const auto transfers = make_one();
      Block block(kTransferChunk + (shift == 0 ? 8192 : 4097), shift);
      round_trip(*transfers, block);
    }
  }
}

TEST_P(TransfersTest, PassingErrorsAreRetried) {
  for (const char* faults : {"spool.write=EIO@1", "spool.write=EAGAIN@1", "spool.read=EIO@1"}) {
    SCOPED_TRACE(faults);
    arm_faults(faults);
    const auto transfers = make_one();
    Block block(3 * kTransferChunk);
    round_trip(*transfers, block);
  }
}

// call, 1 ms, call, 4 ms, call, 16 ms, call: so it takes 21 ms at least if all three are made.
TEST_P(TransfersTest, GivesUpAfterThreeRetries) {
  const auto transfers = make_one(Width::kNarrow);
  Block block(kExtentGranule);
  block.fill(1);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  arm_faults("spool.write=EIO@1+");
  const TransferResult out = run(*transfers, transfer(Direction::kOut, block, extent));
  EXPECT_EQ(out.error, EIO);
  EXPECT_EQ(out.bytes, 0U);
  EXPECT_GE(out.duration, 21'000'000);
  EXPECT_EQ(block.hash(), before) << "the only copy is untouched";
  EXPECT_EQ(transfers->bytes_written(), Bytes{0});
  arm_faults("spool.read=EIO@1+");
  EXPECT_EQ(run(*transfers, transfer(Direction::kIn, block, extent)).error, EIO);
  arm_faults("spool.write=EAGAIN@1+");
  EXPECT_EQ(run(*transfers, transfer(Direction::kOut, block, extent)).error, EAGAIN);
}

TEST_P(TransfersTest, OtherErrorsAreReportedAtOnce) {
  const auto transfers = make_one();
  Block block(4 * kTransferChunk);
  const Extent extent = extent_for(block);
  arm_faults("spool.write=ENOSPC@2");
  const TransferResult out = run(*transfers, transfer(Direction::kOut, block, extent));
  EXPECT_EQ(out.error, ENOSPC);
  EXPECT_LT(out.bytes, block.bytes());
  arm_faults("");
  EXPECT_EQ(run(*transfers, {Direction::kIn, block.data(), extent, -1, block.bytes()}).error,
            EBADF);
  EXPECT_EQ(run(*transfers, transfer(Direction::kOut, block, extent)).error, 0)
      << "it goes on after";
}

TEST_P(TransfersTest, EndOfFileIsAnError) {
  const auto transfers = make_one();
  Block block(kTransferChunk);
  spool_.ensure_open();
  // On a granule, and inside one, where a direct read stops at an odd position.
  for (const std::uint64_t end : {kTransferChunk / 2, std::uint64_t{5000}, std::uint64_t{0}}) {
    SCOPED_TRACE(end);
    ASSERT_EQ(::ftruncate(spool_.descriptor(), static_cast<off_t>(end)), 0);
    const TransferResult in = run(*transfers, transfer(Direction::kIn, block, {0, kTransferChunk}));
    EXPECT_EQ(in.error, ENODATA);
    EXPECT_EQ(in.bytes, 0U);
  }
}

// main     submit x16 ──── drain ──────────┬ all done
// workers     └─ delayed chunks ... done() ┘
TEST_P(TransfersTest, DrainWaitsForEveryCompletionAndEachComesOnce) {
  arm_faults("spool.write=delay:2ms@1+");
  const auto transfers = make_one();
  Block block(kExtentGranule * 3);
  const Extent extent = extent_for(block);
  constexpr std::size_t kTransfers = 16;
  std::vector<std::atomic<int>> calls(kTransfers);
  const auto main_thread = std::this_thread::get_id();
  for (std::size_t i = 0; i < kTransfers; ++i) {
    transfers->submit(transfer(Direction::kOut, block, extent),
                      [&, i](const TransferResult& result) {
                        EXPECT_NE(std::this_thread::get_id(), main_thread);
                        EXPECT_EQ(result.error, 0);
                        EXPECT_GE(result.duration, 2'000'000);
                        ++calls[i];
                      });
  }
  transfers->drain();
  for (const auto& count : calls) {
    EXPECT_EQ(count.load(), 1);
  }
}

TEST_P(TransfersTest, ACompletionMaySubmit) {
  const auto transfers = make_one(Width::kNarrow);
  Block block(kExtentGranule);
  block.fill(4);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  std::atomic<bool> came_back{false};
  transfers->submit(transfer(Direction::kOut, block, extent), [&](const TransferResult&) {
    block.clear();
    transfers->submit(transfer(Direction::kIn, block, extent),
                      [&](const TransferResult& result) { came_back = result.error == 0; });
  });
  transfers->drain();
  EXPECT_TRUE(came_back);
  EXPECT_EQ(block.hash(), before);
}

TEST_P(TransfersTest, ACompletionThatWaitsForItselfIsCaught) {
  const auto transfers = make_one();
  spool_.ensure_open();
  std::atomic<bool> caught{false};
  transfers->submit({Direction::kOut, nullptr, {}, spool_.descriptor(), 0},
                    [&](const TransferResult&) {
                      try {
                        transfers->drain();
                      } catch (const InternalError&) {
                        caught = true;
                      }
                    });
  transfers->drain();
  EXPECT_TRUE(caught);
}

TEST_P(TransfersTest, DestructionCompletesWhatWasSubmitted) {
  arm_faults("spool.write=delay:1ms@1+");
  std::atomic<int> calls{0};
  Block block(2 * kTransferChunk);
  const Extent extent = extent_for(block);
  {
    const auto transfers = make_one();
    for (int i = 0; i < 4; ++i) {
      transfers->submit(transfer(Direction::kOut, block, extent),
                        [&](const TransferResult&) { ++calls; });
    }
  }
  EXPECT_EQ(calls.load(), 4);
}

std::size_t thread_count() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// parent  submit ── before_fork (threads end) ── fork ── submit works again
// child                                            └── submit works, reads the parent's bytes
TEST_P(TransfersTest, WorksInParentAndChildAfterAFork) {
  const auto transfers = make_one();
  const std::size_t threads = thread_count();
  Block block(2 * kTransferChunk);
  block.fill(11);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  ASSERT_EQ(run(*transfers, transfer(Direction::kOut, block, extent)).error, 0);
  EXPECT_GT(thread_count(), threads) << "workers start at the first submit";
  transfers->before_fork();
  EXPECT_EQ(thread_count(), threads);
  const pid_t child = ::fork();
  block.clear();
  const TransferResult in = run(*transfers, transfer(Direction::kIn, block, extent));
  const bool good = in.error == 0 && block.hash() == before;
  transfers->before_fork();
  if (child == 0) {
    ::_exit(good ? 0 : 1);
  }
  EXPECT_TRUE(good);
  EXPECT_EQ(run(*transfers, transfer(Direction::kIn, block, extent)).error, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GT(thread_count(), threads) << "restarted workers stay";
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_P(TransfersTest, WorkersTakeNoSignals) {
  const auto transfers = make_one();
  spool_.ensure_open();
  std::promise<sigset_t> promise;
  transfers->submit({Direction::kOut, nullptr, {}, spool_.descriptor(), 0},
                    [&](const TransferResult&) {
                      sigset_t mask;
                      pthread_sigmask(SIG_BLOCK, nullptr, &mask);
                      promise.set_value(mask);
                    });
  const sigset_t mask = promise.get_future().get();
  EXPECT_EQ(sigismember(&mask, SIGINT), 1);
  EXPECT_EQ(sigismember(&mask, SIGALRM), 1);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
}

}  // namespace
}  // namespace spillway::runtime
