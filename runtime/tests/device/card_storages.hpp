// SPDX-License-Identifier: Apache-2.0
// The mover over a card's tiers, call by call: what an engine does around an op, and nothing that
// it decides. Who calls says when to look for what has ended, so a test is repeatable.
//
//     use -> the work is launched -> used        evict, prefetch, give_up, die between
//
// All functions need `mutex`, which is let go of while what has ended is told of. A failing device
// is a DeviceFailure, no room an answer.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/residency/transition_observer.hpp"
#include "spillway/runtime/device/device_transfers.hpp"
#include "spillway/runtime/device/pinned_host_memory.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_tier.hpp"
#include "spillway/runtime/exec/mover.hpp"

namespace spillway::runtime {

struct CardStorageOptions {
  Bytes device{};  ///< budgets
  Bytes host{};
  Bytes slab = PinnedHostMemory::kSlab;
  Bytes addresses{kMiB * 64};
  OpensAhead ahead = OpensAhead::kAtOnce;
};

class CardStorages final : private residency::TransitionObserver {
 public:
  CardStorages(StreamClock& clock, const CardStorageOptions& options);

  /// For work of `stream`; null: there is no room.
  StorageRecord* create(Bytes bytes, DeviceStream stream);
  /// Work of `stream` is about to be launched that uses it: its address, and a pin until `used`.
  /// Nothing, and no pin: there is no room, or its bytes cannot be had (`failure`).
  std::optional<DeviceAddress> use(StorageRecord& record, DeviceStream stream, Access access);
  void used(StorageRecord& record, DeviceStream stream);

  /// False if it is in use, moving, away, or the host has no room.
  bool evict(StorageRecord& record) { return mover_.write_behind(record, &record) != Bytes{}; }
  /// False if it is not away, or there is no room.
  bool prefetch(StorageRecord& record);
  /// Takes a prefetch or an eviction back that is not issued.
  void give_up(StorageRecord& record) { mover_.cancel_ahead(&record); }
  /// The program needs it no more. It is not pinned.
  void die(StorageRecord& record) { mover_.die(record); }

  /// Goes on with copies, and notices what has ended.
  void advance();
  /// Waits for room that is on its way. False: there is none, and something has to be evicted.
  bool make_room();

  [[nodiscard]] static residency::ResidencyState state(const StorageRecord& record) {
    return record.state.load();
  }
  [[nodiscard]] const residency::Statistics& statistics() const { return statistics_; }
  [[nodiscard]] const std::string& failure() const { return mover_.failure(); }
  [[nodiscard]] StreamTier& tier() { return tier_; }
  [[nodiscard]] PinnedHostMemory& host() { return host_; }
  [[nodiscard]] Mover& mover() { return mover_; }
  [[nodiscard]] std::mutex& mutex() { return mutex_; }

 private:
  /// Says yes to everything.
  class Owner final : public Framework {
   public:
    bool may_evict(void* /*owner*/, const StorageRecord& /*record*/) noexcept override {
      return true;
    }
    void revoke(void* /*owner*/, const StorageRecord& /*record*/, const std::string& /*reason*/,
                Refusal /*refusal*/) noexcept override {}
    void grant(void* /*owner*/, const StorageRecord& /*record*/) noexcept override {}
    void release(void* /*owner*/) noexcept override {}
  };

  void on_event(const residency::ResidencyMachine& machine, const residency::Event& /*event*/,
                TimeNs /*now*/, std::span<const residency::Action> /*actions*/) override {
    statistics_ = machine.statistics();
  }

  std::mutex mutex_;
  std::condition_variable settled_;
  StreamTier tier_;
  PinnedHostMemory host_;
  PinnedHostMemory chunks_;
  Owner owner_;
  Remains remains_;
  residency::Statistics statistics_;
  DeviceTransfers* transfers_ = nullptr;  // the mover's
  Mover mover_;
};

}  // namespace spillway::runtime
