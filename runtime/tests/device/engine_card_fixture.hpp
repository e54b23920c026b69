// SPDX-License-Identifier: Apache-2.0
// An engine over a card, page-locked memory and disk. The card is a stand-in (ThreadDevice), so
// that a test can hold its streams back, and make its calls fail.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/testing/device/forwarding_driver.hpp"
#include "spillway/testing/device/held_stream.hpp"
#include "spillway/testing/device/thread_device.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway::runtime {

inline constexpr Bytes kGranule{std::uint64_t{64} << 10};
inline constexpr Bytes kStorage = kGranule * 4;
inline constexpr Bytes kBudget = kStorage * 4;
inline constexpr Bytes kCard = kStorage * 32;
inline constexpr Bytes kAmple = kMiB * 64;
inline constexpr Bytes kScarce = kMiB;  // four storages
inline constexpr auto kAWhile = std::chrono::milliseconds(20);

inline BudgetSpec bytes(Bytes amount) {
  return {.kind = BudgetSpec::Kind::kBytes, .bytes = amount};
}

class EngineCardTest : public ::testing::Test {
 public:
  ~EngineCardTest() override {
    arm_faults("");
    while (!storages_.empty()) drop(storages_.back());
    renew_this_thread_frames();
    engine_->stop();
    engine_->statistics();  // takes note of what died
    engine_.reset();
    EXPECT_THAT(device_.complaints(), ::testing::IsEmpty());
    EXPECT_EQ(framework_.released.load(), made_);
  }

 protected:
  static Settings settings(Mode mode = Mode::kEnforce, Bytes host = kAmple) {
    Settings result;
    result.budget = bytes(kBudget);
    result.host_budget = bytes(host);
    result.disk_budget = bytes(kMiB * 64);
    result.spool_dir = ::testing::TempDir();
    result.mode = mode;
    return result;
  }
  void start(Mode mode = Mode::kEnforce, Bytes host = kAmple) {
    engine_->start(settings(mode, host));
  }

  DeviceStream stream() {
    DeviceStream made{};
    EXPECT_TRUE(device_.create_stream(made).done());
    return made;
  }
  static DeviceAddress address(const spillway::testing::FakeStorage& storage) {
    return device_address(storage.pointer);
  }
  void enqueue_fill(const spillway::testing::FakeStorage& storage, DeviceStream stream, int value) {
    EXPECT_TRUE(device_.fill(address(storage), std::byte(value), {storage.bytes}, stream).done());
  }

  /// As a program must, where its own work on one stream comes after that on the other.
  void order_after_the_other(DeviceStream stream) {
    DeviceEvent event{};
    ASSERT_TRUE(device_.create_event(EventTiming::kNo, event).done());
    ASSERT_TRUE(device_.record(event, stream == one_ ? two_ : one_).done());
    ASSERT_TRUE(device_.stream_wait(stream, event).done());
    ASSERT_TRUE(device_.destroy_event(event).done());
  }

  /// In an op of its own, every byte of that value.
  spillway::testing::FakeStorage* make(int value, DeviceStream stream, Bytes size = kStorage) {
    engine_->on_stream(stream);
    const spillway::testing::FakeOp op(*engine_);
    auto storage = std::make_unique<spillway::testing::FakeStorage>();
    storage->pointer = engine_->allocate(size.count);
    storage->bytes = size.count;
    storage->record = engine_->find(storage->pointer);
    enqueue_fill(*storage, stream, value);
    engine_->produced(*storage->record);
    engine_->bind(*storage->record, storage.get(), storage.get());
    ++made_;
    return storage.release();
  }
  void fill(int count) {
    for (int value = 0; value < count; ++value) storages_.push_back(make(value, one_));
  }
  /// Four storages that fill the budget are written, on the first stream, which is held; `work`,
  /// which needs the room of one, has to wait.
  template <class Work>
  auto begin_behind_writes(Work work) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(write(at(i), 10 + i, one_));
    { const spillway::testing::FakeOp next(*engine_); }
    auto done = std::async(std::launch::async, std::move(work));
    EXPECT_EQ(done.wait_for(kAWhile), std::future_status::timeout);
    return done;
  }
  std::future<spillway::testing::FakeStorage*> make_behind_writes() {
    return begin_behind_writes([this] { return make(4, two_); });
  }
  bool write(const spillway::testing::FakeStorage& storage, int value, DeviceStream stream) {
    engine_->on_stream(stream);
    spillway::testing::FakeOp op(*engine_);
    if (!op.write(storage) || !engine_->inputs_ready()) return false;
    order_after_the_other(stream);
    enqueue_fill(storage, stream, value);
    return true;
  }
  /// The value of all its bytes; -1: it cannot be had, -2: they differ.
  int read(const spillway::testing::FakeStorage& storage, DeviceStream stream) {
    int seen = -1;
    {
      engine_->on_stream(stream);
      spillway::testing::FakeOp op(*engine_);
      if (!op.read(storage) || !engine_->inputs_ready()) return -1;
      order_after_the_other(stream);
      const auto look = [&seen, count = storage.bytes](std::span<std::byte* const> at) {
        seen = static_cast<int>(at[0][0]);
        for (std::uint64_t i = 0; i < count; ++i) {
          if (at[0][i] != at[0][0]) seen = -2;
        }
      };
      EXPECT_TRUE(device_.launch(stream, {{address(storage), {storage.bytes}}}, look).done());
    }
    EXPECT_TRUE(device_.synchronize_stream(stream).done());
    return seen;
  }
  [[nodiscard]] spillway::testing::FakeStorage& at(int index) const {
    return *storages_[static_cast<std::size_t>(index)];
  }
  void expect_all_intact(DeviceStream stream) {
    for (int i = 0; i < std::ssize(storages_); ++i) {
      EXPECT_EQ(read(at(i), stream), i) << Engine::last_failure();
    }
  }
  void expect_budget_held() {
    const Statistics statistics = engine_->statistics();
    EXPECT_LE(statistics.peak_device, kBudget);
    EXPECT_EQ(statistics.overshoot, Bytes{0});
    EXPECT_LE(device_.used(), kBudget) << "the driver's own count";
  }
  void drop(spillway::testing::FakeStorage* storage) {
    std::erase(storages_, storage);
    spillway::testing::drop_storage(*engine_, storage);
  }
  static residency::ResidencyState state(const spillway::testing::FakeStorage& storage) {
    return storage.record->state.load();
  }

  spillway::testing::ThreadDevice device_{
      {.memory = kCard, .granule = kGranule.count, .longest_delay_us = 50}};
  DeviceStream one_ = stream();
  DeviceStream two_ = stream();
  spillway::testing::FakeFramework framework_;
  std::uint64_t made_ = 0;
  CardTiers* tiers_ = new CardTiers(  // the engine's
      std::make_unique<spillway::testing::ForwardingDriver>(device_),
      {.addresses = kMiB * 256, .slab = kMiB, .chunk = kGranule, .ticks = {}});
  std::unique_ptr<Engine> engine_ =
      std::make_unique<Engine>(framework_, std::unique_ptr<TierSet>(tiers_));
  std::vector<spillway::testing::FakeStorage*> storages_;
};

}  // namespace spillway::runtime
