// SPDX-License-Identifier: Apache-2.0
// A random program of a card under the engine: a step that is run again and again, as training
// does, of ops on several streams over weights that stay and activations that are made and die in
// it. What it computes is compared with what the same kernels make of it one after the other.
//
// One thread's; several programs may share an engine, each on its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ordered_launches.hpp"
#include "program_kernels.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/testing/device/thread_device.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {

class EngineProgram {
 public:
  static constexpr Bytes kGranule{std::uint64_t{64} << 10};
  /// An op's operands, with what the op before made: no budget below it can work.
  static constexpr std::uint64_t kLargestWorkingSet = 12;  // granules

  EngineProgram(spillway::testing::ThreadDevice& device, Engine& engine,
                std::vector<DeviceStream> streams, std::uint64_t seed);
  /// Lets all die that lives.
  ~EngineProgram();
  EngineProgram(const EngineProgram&) = delete;
  EngineProgram& operator=(const EngineProgram&) = delete;

  /// Runs the step so often, reads all there is once more, and waits for it. Returns what ended it
  /// before, in words; empty if nothing did.
  std::string run(int steps);

  /// Storages read that held something else than they should.
  [[nodiscard]] std::uint64_t wrong() const { return wrong_->load(); }
  /// Kernels launched.
  [[nodiscard]] std::uint64_t kernels() const { return launches_.launched(); }
  /// Of ops that were run again.
  [[nodiscard]] std::uint64_t made_again() const { return made_again_; }
  /// Most memory that the card held after any op, by the driver's own count.
  [[nodiscard]] Bytes most_used() const { return most_used_; }

 private:
  static constexpr std::size_t kWeights = 6;
  static constexpr std::size_t kActivations = 10;
  static constexpr std::uint64_t kMostGranules = 3;  // of a storage

  enum class OpKind : std::uint8_t { kMake, kMix, kCheck, kDie };
  struct Op {
    OpKind kind;
    std::size_t stream;
    std::size_t target;
    std::size_t first = 0;
    std::size_t second = 0;
    std::uint64_t salt = 0;
    Bytes bytes{};
  };
  struct Storage {
    spillway::testing::FakeStorage* handle = nullptr;  // null: it does not live
    OrderedLaunches::Uses uses;
    Words expected;
  };

  Op random_make(std::size_t slot);
  void plan_step();
  Op random_op(std::vector<std::size_t>& living, std::vector<std::size_t>& dead);
  void perform(const Op& op, std::uint64_t signature, bool boundary);
  void make(const Op& op);
  void mix(const Op& op);
  void check(const Op& op);
  void die(std::size_t slot);
  OrderedLaunches::Operand use(std::size_t slot, Access access);
  static void be_ready(Engine& engine);
  class Again;
  std::shared_ptr<Making> again(std::vector<Bytes> operands,
                                spillway::testing::DeviceKernel kernel);

  spillway::testing::ThreadDevice& device_;
  Engine& engine_;
  const std::vector<DeviceStream> streams_;
  std::mt19937_64 random_;
  OrderedLaunches launches_;
  std::vector<Op> first_ops_;  // make the weights
  std::vector<Op> step_;
  std::vector<Storage> storages_{kWeights + kActivations};
  WrongReads wrong_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  Bytes most_used_{};
  DeviceStream stream_{};  // of the op that is run
  std::uint64_t made_again_ = 0;
};

}  // namespace spillway::runtime
