// SPDX-License-Identifier: Apache-2.0
// A random program of a card: kernels on several streams that mix hashes, over storages that leave
// for the host, come back, die and leave their memory to others. What it computes is compared with
// what the same kernels make of it one after the other, at the time they are launched.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "card_storages.hpp"
#include "ordered_launches.hpp"
#include "program_kernels.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {

/// What several programs on one card share.
struct ProgramCard {
  spillway::testing::ThreadDevice& device;
  CardStorages& storages;
};

class DeviceProgram {
 public:
  static constexpr std::uint64_t kGranule = 4096;
  static constexpr std::size_t kMostStorages = 10;

  DeviceProgram(const ProgramCard& card, std::vector<DeviceStream> streams, std::uint64_t seed);
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  void run(int steps);
  /// Reads all there is once more, and waits for it.
  void finish();

  /// Storages read that held something else than they should.
  [[nodiscard]] std::uint64_t wrong() const { return wrong_->load(); }
  /// Kernels launched.
  [[nodiscard]] std::uint64_t kernels() const { return launches_.launched(); }

 private:
  struct Storage {
    StorageRecord* record = nullptr;
    std::uint64_t granules = 1;
    Words expected;
    OrderedLaunches::Uses uses;
  };
  struct Operand {
    Storage* storage;
    Access access;
  };

  void step();
  void create();
  void mix();
  void check(Storage& storage);
  void evict();
  void prefetch();
  void die(std::size_t index);
  /// One that may be used, and is not among those.
  Storage& any() { return *storages_[random_() % storages_.size()]; }
  DeviceStream any_stream() { return streams_[random_() % streams_.size()]; }
  /// Launches a kernel over the operands, bringing them in. False: there is no room for them.
  bool launch(DeviceStream stream, const std::vector<Operand>& operands,
              spillway::testing::DeviceKernel kernel);
  bool pin(DeviceStream stream, const std::vector<Operand>& operands,
           std::vector<OrderedLaunches::Operand>& pinned);
  bool make_room(const std::vector<Operand>& kept);

  const ProgramCard card_;
  const std::vector<DeviceStream> streams_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Storage>> storages_;
  OrderedLaunches launches_;
  WrongReads wrong_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace spillway::runtime
