// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/transfer_pool.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::runtime {
namespace {

/// Page-aligned memory with room to start at an odd address.
class Block {
 public:
  explicit Block(std::uint64_t bytes, std::uint64_t shift = 0)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(
                    kExtentGranule, round_up({bytes + shift + 1}, kExtentGranule).count)),
                &std::free),
        data_(memory_.get() + shift),
        bytes_(bytes) {
    data_[bytes_] = kGuard;
  }

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t i = 0; i < bytes_; i += 8) {
      const std::uint64_t word = random();
      std::memcpy(data_ + i, &word, std::min<std::uint64_t>(8, bytes_ - i));
    }
  }
  void clear() { std::memset(data_, 0xEE, bytes_); }
  [[nodiscard]] std::uint64_t hash() const { return XXH3_64bits(data_, bytes_); }
  [[nodiscard]] bool guard_is_intact() const { return data_[bytes_] == kGuard; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::byte kGuard{0x5A};
  std::unique_ptr<std::byte, void (*)(void*)> memory_;
  std::byte* data_;
  std::uint64_t bytes_;
};

TransferResult run(TransferPool& pool, const Transfer& transfer) {
  std::promise<TransferResult> promise;
  pool.submit(transfer, [&promise](TransferResult result) { promise.set_value(result); });
  return promise.get_future().get();
}

class TransferPoolTest : public testing::Test {
 protected:
  TransferPoolTest() : spool_({testing::TempDir(), kGiB, {}}) {}
  ~TransferPoolTest() override { arm_faults(""); }

  Transfer transfer(Direction direction, const Block& block, Extent extent) {
    return {direction, block.data(), extent, spool_.descriptor(), block.bytes()};
  }
  Extent extent_for(const Block& block) { return spool_.allocate({block.bytes()}).value(); }

  /// Writes a block, clears it, reads it back and compares. Errors fail the test.
  void round_trip(TransferPool& pool, Block& block) {
    block.fill(block.bytes());
    const std::uint64_t before = block.hash();
    const Extent extent = extent_for(block);
    const TransferResult out = run(pool, transfer(Direction::kOut, block, extent));
    EXPECT_EQ(out.error, 0);
    EXPECT_EQ(out.bytes, block.bytes());
    block.clear();
    const TransferResult in = run(pool, transfer(Direction::kIn, block, extent));
    EXPECT_EQ(in.error, 0);
    EXPECT_EQ(in.bytes, block.bytes());
    EXPECT_EQ(block.hash(), before);
    EXPECT_TRUE(block.guard_is_intact());
    spool_.free(extent);
  }

  Spool spool_;
};

TEST_F(TransferPoolTest, BytesComeBackWhateverLengthAndAddress) {
  TransferPool pool;
  for (const std::uint64_t bytes :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096}, std::uint64_t{4097},
        kTransferChunk - 1, kTransferChunk, kTransferChunk + 1, 3 * kTransferChunk + 12345}) {
    for (const std::uint64_t shift : {0U, 1U, 64U, 4095U}) {
      SCOPED_TRACE(testing::Message() << bytes << " bytes at odd address +" << shift);
      Block block(bytes, shift);
      round_trip(pool, block);
    }
  }
}

// What follows an extent belongs to somebody else.
TEST_F(TransferPoolTest, PaddingStaysInsideTheExtent) {
  TransferPool pool;
  Block first(kExtentGranule + 1);
  Block second(kExtentGranule);
  first.fill(1);
  second.fill(2);
  const std::uint64_t before = second.hash();
  const Extent a = extent_for(first);
  const Extent b = extent_for(second);
  ASSERT_EQ(a.offset + a.bytes, b.offset);
  EXPECT_EQ(run(pool, transfer(Direction::kOut, second, b)).error, 0);
  EXPECT_EQ(run(pool, transfer(Direction::kOut, first, a)).error, 0);
  second.clear();
  EXPECT_EQ(run(pool, transfer(Direction::kIn, second, b)).error, 0);
  EXPECT_EQ(second.hash(), before);
}

// Not what lay in our memory before.
TEST_F(TransferPoolTest, PaddingOfDirectWritesIsZero) {
  Block odd(1);
  odd.fill(1);
  Block whole(kExtentGranule);
  whole.fill(2);
  const Extent extent = extent_for(odd);
  if (!spool_.direct_io()) {
    GTEST_SKIP() << "buffered writes are not padded";
  }
  TransferPool pool(1);
  ASSERT_EQ(run(pool, transfer(Direction::kOut, whole, extent)).error, 0);
  ASSERT_EQ(run(pool, transfer(Direction::kOut, odd, extent)).error, 0);
  ASSERT_EQ(run(pool, transfer(Direction::kIn, whole, extent)).error, 0);
  EXPECT_EQ(whole.data()[0], odd.data()[0]);
  const auto is_zero = [](std::byte value) { return value == std::byte{0}; };
  EXPECT_TRUE(std::all_of(whole.data() + 1, whole.data() + whole.bytes(), is_zero));
}

TEST_F(TransferPoolTest, BufferedDescriptorsWork) {
  spool_.ensure_open();
  const int flags = ::fcntl(spool_.descriptor(), F_GETFL);
  ASSERT_EQ(::fcntl(spool_.descriptor(), F_SETFL, flags & ~O_DIRECT), 0);
  TransferPool pool;
  Block block(2 * kTransferChunk + 77, 3);
  round_trip(pool, block);
}

TEST_F(TransferPoolTest, NothingToMoveStillCompletes) {
  TransferPool pool;
  spool_.ensure_open();
  const TransferResult result = run(pool, {Direction::kOut, nullptr, {}, spool_.descriptor(), 0});
  EXPECT_EQ(result.error, 0);
  EXPECT_EQ(result.bytes, 0U);
}

TEST_F(TransferPoolTest, RunHereDoesTheSame) {
  TransferPool pool;
  Block block(kTransferChunk + 5, 1);
  block.fill(9);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  EXPECT_EQ(pool.run_here(transfer(Direction::kOut, block, extent)).error, 0);
  block.clear();
  const TransferResult in = pool.run_here(transfer(Direction::kIn, block, extent));
  EXPECT_EQ(in.error, 0);
  EXPECT_EQ(in.bytes, block.bytes());
  EXPECT_EQ(block.hash(), before);
}

TEST_F(TransferPoolTest, CountsWhatWasMoved) {
  TransferPool pool;
  Block block(kTransferChunk + 100);
  round_trip(pool, block);
  EXPECT_EQ(pool.bytes_written(), Bytes{block.bytes()});
  EXPECT_EQ(pool.bytes_read(), Bytes{block.bytes()});
}

TEST_F(TransferPoolTest, RefusesATransferThatDoesNotFitItsExtent) {
  TransferPool pool;
  Block block(2 * kExtentGranule);
  bool called = false;
  const auto done = [&called](TransferResult) { called = true; };
  EXPECT_THROW(pool.submit(transfer(Direction::kOut, block, {0, kExtentGranule}), done),
               InternalError);
  EXPECT_THROW(pool.submit(transfer(Direction::kOut, block, {512, 4 * kExtentGranule}), done),
               InternalError);
  pool.drain();
  EXPECT_FALSE(called);
}

TEST_F(TransferPoolTest, ShortAndInterruptedCallsAreCarriedOn) {
  for (const char* faults : {"spool.write=short@1+, spool.read=short@1+", "spool.write=short@2",
                             "spool.write=EINTR@1, spool.read=EINTR@2"}) {
    for (const std::uint64_t shift : {0U, 7U}) {
      SCOPED_TRACE(testing::Message() << faults << " +" << shift);
      arm_faults(faults);
      TransferPool pool;
      Block block(kTransferChunk + 4097, shift);
      round_trip(pool, block);
    }
  }
}

TEST_F(TransferPoolTest, PassingErrorsAreRetried) {
  for (const char* faults : {"spool.write=EIO@1", "spool.write=EAGAIN@1", "spool.read=EIO@1"}) {
    SCOPED_TRACE(faults);
    arm_faults(faults);
    TransferPool pool;
    Block block(3 * kTransferChunk);
    round_trip(pool, block);
  }
}

// call, 1 ms, call, 4 ms, call, 16 ms, call: so it takes 21 ms at least if all three are made.
TEST_F(TransferPoolTest, GivesUpAfterThreeRetries) {
  TransferPool pool(1);
  Block block(kExtentGranule);
  block.fill(1);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  arm_faults("spool.write=EIO@1+");
  const TransferResult out = run(pool, transfer(Direction::kOut, block, extent));
  EXPECT_EQ(out.error, EIO);
  EXPECT_EQ(out.bytes, 0U);
  EXPECT_GE(out.duration, 21'000'000);
  EXPECT_EQ(block.hash(), before) << "the only copy is untouched";
  EXPECT_EQ(pool.bytes_written(), Bytes{0});
  arm_faults("spool.read=EIO@1+");
  EXPECT_EQ(run(pool, transfer(Direction::kIn, block, extent)).error, EIO);
  arm_faults("spool.write=EAGAIN@1+");
  EXPECT_EQ(run(pool, transfer(Direction::kOut, block, extent)).error, EAGAIN);
}

TEST_F(TransferPoolTest, OtherErrorsAreReportedAtOnce) {
  TransferPool pool;
  Block block(4 * kTransferChunk);
  const Extent extent = extent_for(block);
  arm_faults("spool.write=ENOSPC@2");
  const TransferResult out = run(pool, transfer(Direction::kOut, block, extent));
  EXPECT_EQ(out.error, ENOSPC);
  EXPECT_LT(out.bytes, block.bytes());
  arm_faults("");
  EXPECT_EQ(run(pool, {Direction::kIn, block.data(), extent, -1, block.bytes()}).error, EBADF);
  EXPECT_EQ(run(pool, transfer(Direction::kOut, block, extent)).error, 0) << "it goes on after";
}

TEST_F(TransferPoolTest, EndOfFileIsAnError) {
  TransferPool pool;
  Block block(kTransferChunk);
  spool_.ensure_open();
  // On a granule, and inside one, where a direct read stops at an odd position.
  for (const std::uint64_t end : {kTransferChunk / 2, std::uint64_t{5000}, std::uint64_t{0}}) {
    SCOPED_TRACE(end);
    ASSERT_EQ(::ftruncate(spool_.descriptor(), static_cast<off_t>(end)), 0);
    const TransferResult in = run(pool, transfer(Direction::kIn, block, {0, kTransferChunk}));
    EXPECT_EQ(in.error, ENODATA);
    EXPECT_EQ(in.bytes, 0U);
  }
}

// main     submit x16 ──── drain ──────────┬ all done
// workers     └─ delayed chunks ... done() ┘
TEST_F(TransferPoolTest, DrainWaitsForEveryCompletionAndEachComesOnce) {
  arm_faults("spool.write=delay:2ms@1+");
  TransferPool pool;
  Block block(kExtentGranule * 3);
  const Extent extent = extent_for(block);
  constexpr std::size_t kTransfers = 16;
  std::vector<std::atomic<int>> calls(kTransfers);
  const auto main_thread = std::this_thread::get_id();
  for (std::size_t i = 0; i < kTransfers; ++i) {
    pool.submit(transfer(Direction::kOut, block, extent), [&, i](TransferResult result) {
      EXPECT_NE(std::this_thread::get_id(), main_thread);
      EXPECT_EQ(result.error, 0);
      EXPECT_GE(result.duration, 2'000'000);
      ++calls[i];
    });
  }
  pool.drain();
  for (const auto& count : calls) {
    EXPECT_EQ(count.load(), 1);
  }
}

TEST_F(TransferPoolTest, ACompletionMaySubmit) {
  TransferPool pool(1);
  Block block(kExtentGranule);
  block.fill(4);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  std::atomic<bool> came_back{false};
  pool.submit(transfer(Direction::kOut, block, extent), [&](TransferResult) {
    block.clear();
    pool.submit(transfer(Direction::kIn, block, extent),
                [&](TransferResult result) { came_back = result.error == 0; });
  });
  pool.drain();
  EXPECT_TRUE(came_back);
  EXPECT_EQ(block.hash(), before);
}

TEST_F(TransferPoolTest, ACompletionThatWaitsForItselfIsCaught) {
  TransferPool pool;
  spool_.ensure_open();
  std::atomic<bool> caught{false};
  pool.submit({Direction::kOut, nullptr, {}, spool_.descriptor(), 0}, [&](TransferResult) {
    try {
      pool.drain();
    } catch (const InternalError&) {
      caught = true;
    }
  });
  pool.drain();
  EXPECT_TRUE(caught);
}

TEST_F(TransferPoolTest, DestructionCompletesWhatWasSubmitted) {
  arm_faults("spool.write=delay:1ms@1+");
  std::atomic<int> calls{0};
  Block block(2 * kTransferChunk);
  const Extent extent = extent_for(block);
  {
    TransferPool pool(2);
    for (int i = 0; i < 4; ++i) {
      pool.submit(transfer(Direction::kOut, block, extent), [&](TransferResult) { ++calls; });
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
TEST_F(TransferPoolTest, WorksInParentAndChildAfterAFork) {
  TransferPool pool;
  const std::size_t threads = thread_count();
  Block block(2 * kTransferChunk);
  block.fill(11);
  const std::uint64_t before = block.hash();
  const Extent extent = extent_for(block);
  ASSERT_EQ(run(pool, transfer(Direction::kOut, block, extent)).error, 0);
  EXPECT_GT(thread_count(), threads) << "workers start at the first submit";
  pool.before_fork();
  EXPECT_EQ(thread_count(), threads);
  const pid_t child = ::fork();
  block.clear();
  const TransferResult in = run(pool, transfer(Direction::kIn, block, extent));
  const bool good = in.error == 0 && block.hash() == before;
  pool.before_fork();
  if (child == 0) {
    ::_exit(good ? 0 : 1);
  }
  EXPECT_TRUE(good);
  EXPECT_EQ(run(pool, transfer(Direction::kIn, block, extent)).error, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GT(thread_count(), threads) << "restarted workers stay";
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(TransferPoolTest, WorkersTakeNoSignals) {
  TransferPool pool;
  spool_.ensure_open();
  std::promise<sigset_t> promise;
  pool.submit({Direction::kOut, nullptr, {}, spool_.descriptor(), 0}, [&](TransferResult) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    promise.set_value(mask);
  });
  const sigset_t mask = promise.get_future().get();
  EXPECT_EQ(sigismember(&mask, SIGINT), 1);
  EXPECT_EQ(sigismember(&mask, SIGALRM), 1);
  EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
}

class TransferStress : public testing::TestWithParam<const char*> {};

// Eight threads share one spool and one pool. Each owns some blocks and, in any order, writes one
// to a new extent, reads one back and compares, or frees one. The budget is tight, so "full" is one
// of the answers. An extent handed to two owners, a lost chunk or a wrong offset shows in a hash.
TEST_P(TransferStress, ContentSurvives) {
  const std::uint32_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  arm_faults(GetParam());
  Spool spool({testing::TempDir(), kMiB * 96, {}});
  TransferPool pool;
  std::atomic<int> full{0};
  std::atomic<int> compared{0};
  const auto owner = [&](std::uint32_t number) {
    struct Stored {
      Extent extent;
      std::uint64_t bytes;
      std::uint64_t hash;
    };
    std::mt19937 random(seed + number);
    std::vector<Stored> stored;
    const auto give_back = [&](std::size_t index) {
      std::swap(stored[index], stored.back());
      spool.free(stored.back().extent);
      stored.pop_back();
    };
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? 9'000'000U : 300'000U);
      Block block(bytes, random() % 2 == 0 ? 0 : random() % 4096);
      const auto extent = spool.allocate({bytes});
      if (!extent) {
        ++full;
      } else {
        block.fill(random());
        const TransferResult out =
            run(pool, {Direction::kOut, block.data(), *extent, spool.descriptor(), bytes});
        ASSERT_EQ(out.error, 0) << "seed " << seed;
        stored.push_back({*extent, bytes, block.hash()});
      }
      if (stored.empty()) {
        continue;
      }
      const std::size_t index = random() % stored.size();
      Block back(stored[index].bytes, random() % 2 == 0 ? 0 : random() % 4096);
      const TransferResult in = run(pool, {Direction::kIn, back.data(), stored[index].extent,
                                           spool.descriptor(), back.bytes()});
      ASSERT_EQ(in.error, 0) << "seed " << seed;
      ASSERT_EQ(back.hash(), stored[index].hash) << "seed " << seed << " step " << step;
      ++compared;
      if (!extent || random() % 3 == 0) {
        give_back(index);
      }
    }
    while (!stored.empty()) {
      give_back(stored.size() - 1);
    }
  };
  std::vector<std::thread> owners;
  for (std::uint32_t number = 0; number < 8; ++number) {
    owners.emplace_back(owner, number);
  }
  for (std::thread& thread : owners) {
    thread.join();
  }
  EXPECT_EQ(spool.usage().used, Bytes{0});
  EXPECT_LE(spool.usage().capacity, kMiB * 96);
  EXPECT_GT(compared.load(), 300);
  std::cout << compared << " comparisons, " << full << " times full\n";
}

INSTANTIATE_TEST_SUITE_P(Faults, TransferStress,
                         testing::Values("", "spool.write=short@3+, spool.read=short@5+",
                                         "spool.write=EIO@7, spool.read=EAGAIN@9"));

}  // namespace
}  // namespace spillway::runtime
