// SPDX-License-Identifier: Apache-2.0
// Parts that the tests of transfers share: memory with a guard, and one fixture for each
// implementation.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"
#if SPILLWAY_HAS_IO_URING
#include "spillway/runtime/transfer/transfer_ring.hpp"
#endif

namespace spillway::runtime {

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

inline TransferResult run(Transfers& transfers, const Transfer& transfer) {
  std::promise<TransferResult> promise;
  transfers.submit(transfer,
                   [&promise](const TransferResult& result) { promise.set_value(result); });
  return promise.get_future().get();
}

/// How many chunks are under way at most, and of background ones.
enum class Width { kUsual, kNarrow };

inline std::unique_ptr<Transfers> make(IoMethod method, Width width) {
#if SPILLWAY_HAS_IO_URING
  if (method == IoMethod::kUring) {
    return width == Width::kUsual ? std::make_unique<TransferRing>()
                                  : std::make_unique<TransferRing>(1, 1);
  }
#endif
  static_cast<void>(method);
  return width == Width::kUsual ? std::make_unique<TransferPool>()
                                : std::make_unique<TransferPool>(1);
}

/// Those that this machine allows; the others are named in the output.
inline std::vector<IoMethod> methods() {
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return {IoMethod::kThreads, IoMethod::kUring};
  std::cout << "io_uring is not tested: " << refusal << '\n';
  return {IoMethod::kThreads};
}

inline std::string name_of(const testing::TestParamInfo<IoMethod>& info) {
  return std::string(to_string(info.param));
}

class TransfersTest : public testing::TestWithParam<IoMethod> {
 public:
  TransfersTest() : spool_({testing::TempDir(), kGiB, {}}) {}
  ~TransfersTest() override { arm_faults(""); }

 protected:
  Transfer transfer(Direction direction, const Block& block, Extent extent) {
    return {direction, block.data(), extent, spool_.descriptor(), block.bytes()};
  }
  Extent extent_for(const Block& block) { return spool_.allocate({block.bytes()}).value(); }

  /// Writes a block, clears it, reads it back and compares. Errors fail the test.
  void round_trip(Transfers& transfers, Block& block) {
    block.fill(block.bytes());
    const std::uint64_t before = block.hash();
    const Extent extent = extent_for(block);
    const TransferResult out = run(transfers, transfer(Direction::kOut, block, extent));
    EXPECT_EQ(out.error, 0);
    EXPECT_EQ(out.bytes, block.bytes());
    block.clear();
    const TransferResult in = run(transfers, transfer(Direction::kIn, block, extent));
    EXPECT_EQ(in.error, 0);
    EXPECT_EQ(in.bytes, block.bytes());
    EXPECT_EQ(block.hash(), before);
    EXPECT_TRUE(block.guard_is_intact());
    spool_.free(extent);
  }

  static std::unique_ptr<Transfers> make_one(Width width = Width::kUsual) {
    return make(GetParam(), width);
  }

  Spool spool_;
};

}  // namespace spillway::runtime
