// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "transfers_fixture.hpp"

namespace spillway::runtime {
namespace {

using StressCase = std::tuple<IoMethod, const char*>;
class TransferStressTest : public testing::TestWithParam<StressCase> {};

struct Counts {
  std::atomic<int> full{0};
  std::atomic<int> compared{0};
};

// One of those that share a spool: owns some blocks on it and does in any order what an owner does.
class Owner {
 public:
  Owner(Spool& spool, Transfers& transfers, Counts& counts, std::uint32_t seed)
      : spool_(spool), transfers_(transfers), counts_(counts), random_(seed) {}

  void run_steps(int steps) {
    for (int step = 0; step < steps; ++step) {
      // Two out of three are as the engine's: whole granules at a page.
      const bool odd = random_() % 3 == 0;
      const bool stored = store(odd);
      if (stored_.empty()) continue;
      const std::size_t index = random_() % stored_.size();
      compare(index, odd);
      if (testing::Test::HasFatalFailure()) return;
      if (!stored || random_() % 3 == 0) give_back(index);
    }
    while (!stored_.empty()) give_back(stored_.size() - 1);
  }

 private:
  struct Stored {
    Extent extent;
    std::uint64_t bytes;
    std::uint64_t hash;
  };

  // Writes a block to a new extent. False if there is no room.
  bool store(bool odd) {
    std::uint64_t bytes = 1 + random_() % (random_() % 4 == 0 ? 9'000'000U : 300'000U);
    if (!odd) bytes = round_up({bytes}, kExtentGranule).count;
    Block block(bytes, offset(odd));
    const auto extent = spool_.allocate({bytes});
    if (!extent) {
      ++counts_.full;
      return false;
    }
    block.fill(random_());
    const TransferResult out =
        run(transfers_, {Direction::kOut, block.data(), *extent, spool_.descriptor(), bytes});
    EXPECT_EQ(out.error, 0);
    stored_.push_back({*extent, bytes, block.hash()});
    return true;
  }

  void compare(std::size_t index, bool odd) {
    const Stored& stored = stored_[index];
    Block back(stored.bytes, offset(odd));
    const TransferResult in = run(transfers_, {Direction::kIn, back.data(), stored.extent,
                                               spool_.descriptor(), back.bytes()});
    ASSERT_EQ(in.error, 0);
    ASSERT_EQ(back.hash(), stored.hash);
    ++counts_.compared;
  }

  void give_back(std::size_t index) {
    std::swap(stored_[index], stored_.back());
    spool_.free(stored_.back().extent);
    stored_.pop_back();
  }

  std::size_t offset(bool odd) { return odd ? random_() % 4096 : 0; }

  Spool& spool_;
  Transfers& transfers_;
  Counts& counts_;
  std::mt19937 random_;
  std::vector<Stored> stored_;
};

// Eight threads share one spool and its transfers. Each owns some blocks and, in any order, writes
// one to a new extent, reads one back and compares, or frees one. The budget is tight, so "full" is
// one of the answers. An extent handed to two owners, a lost chunk or a wrong offset shows in a
// hash.
TEST_P(TransferStressTest, ContentSurvives) {
  const std::uint32_t seed = std::random_device{}();
  std::cout << "seed " << seed << '\n';
  arm_faults(std::get<1>(GetParam()));
  Spool spool({testing::TempDir(), kMiB * 96, {}});
  const auto transfers = make(std::get<0>(GetParam()), Width::kUsual);
  Counts counts;
  std::vector<std::thread> threads;
  for (std::uint32_t number = 0; number < 8; ++number) {
    threads.emplace_back(
        [&, number] { Owner(spool, *transfers, counts, seed + number).run_steps(60); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(spool.usage().used, Bytes{0});
  EXPECT_LE(spool.usage().capacity, kMiB * 96);
  EXPECT_GT(counts.compared.load(), 300);
  std::cout << counts.compared << " comparisons, " << counts.full << " times full\n";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, TransferStressTest,
    testing::Combine(testing::ValuesIn(methods()),
                     testing::Values("", "spool.write=short@3+, spool.read=short@5+",
                                     "spool.write=EIO@7, spool.read=EAGAIN@9")));

}  // namespace
}  // namespace spillway::runtime
