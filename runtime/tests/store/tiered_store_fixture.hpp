// SPDX-License-Identifier: Apache-2.0
// A store in the tests' folder, by each way in which bytes move here.
#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/store/tiered_store.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {

inline constexpr Bytes kPage{4096};

inline std::vector<std::byte> contents(Bytes bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> result(bytes.count);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

class TieredStoreTest : public testing::TestWithParam<IoMethod> {
 public:
  ~TieredStoreTest() override { arm_faults(""); }

 protected:
  static TieredStoreOptions options(Bytes host, Bytes disk) {
    return {.host_budget = host,
            .spool = {.directory = testing::TempDir(), .budget = disk, .warn = {}}};
  }
  static std::unique_ptr<Transfers> transfers() { return make_transfers(GetParam()); }

  static int store(TieredStore& store, StoredId id, const std::vector<std::byte>& from) {
    std::atomic<int> error{-1};
    store.store(id, from.data(), [&error](int result) { error = result; });
    store.drain();
    return error;
  }
  static int load(TieredStore& store, StoredId id, std::vector<std::byte>& to) {
    to.assign(store.bytes(id).count, std::byte{0xEE});
    std::atomic<int> error{-1};
    store.load(id, to.data(), [&error](int result) { error = result; });
    store.drain();
    return error;
  }
};

inline std::vector<IoMethod> methods() {
  return io_uring_refusal().empty() ? std::vector{IoMethod::kThreads, IoMethod::kUring}
                                    : std::vector{IoMethod::kThreads};
}

inline std::string name_of(const testing::TestParamInfo<IoMethod>& method) {
  return std::string(to_string(method.param));
}

}  // namespace spillway::runtime
