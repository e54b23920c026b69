// SPDX-License-Identifier: Apache-2.0
// A random program of a card: kernels on several streams that mix hashes, over storages that leave
// for the host, come back, die and leave their memory to others. What it computes is compared with
// what the same kernels make of it one after the other, at the time they are launched.
//
// As a program must, it orders its own kernels that use one storage on different streams. All else
// is the protocol's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "spillway/runtime/device/stream_residency.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {

/// What several programs on one card share, with the lock of StreamResidency's owner.
struct ProgramCard {
  spillway::testing::ThreadDevice& device;
  StreamResidency& residency;
  MemoryBudget& budget;
  std::mutex& lock;
};

class DeviceProgram {
 public:
  static constexpr std::uint64_t kGranule = 4096;
  static constexpr std::size_t kMostStorages = 10;

  DeviceProgram(const ProgramCard& card, std::vector<DeviceStream> streams, std::uint64_t seed);
  ~DeviceProgram();
  DeviceProgram(const DeviceProgram&) = delete;
  DeviceProgram& operator=(const DeviceProgram&) = delete;

  void run(int steps);
  /// Reads all there is once more, and waits for it.
  void finish();

  /// Storages read that held something else than they should.
  [[nodiscard]] std::uint64_t wrong() const { return wrong_->load(); }
  /// Kernels launched.
  [[nodiscard]] std::uint64_t kernels() const { return kernels_; }

 private:
  using Words = std::vector<std::uint64_t>;
  struct Launched {
    DeviceStream stream;
    DeviceEvent event;
  };
  struct Storage {
    StorageId id{};
    std::uint64_t granules = 1;
    Words expected;  // the word at each 512th byte
    std::optional<Launched> written;
    std::vector<Launched> read;
  };
  struct Operand {
    Storage* storage;
    DeviceUse use;
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
           std::vector<spillway::testing::DeviceAccess>& accesses);
  void order(DeviceStream stream, const Operand& operand);
  bool make_room(const std::vector<Operand>& kept);

  const ProgramCard card_;
  const std::vector<DeviceStream> streams_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Storage>> storages_;
  std::vector<DeviceEvent> events_;
  std::shared_ptr<std::atomic<std::uint64_t>> wrong_ =
      std::make_shared<std::atomic<std::uint64_t>>(0);
  std::uint64_t kernels_ = 0;
};

}  // namespace spillway::runtime
