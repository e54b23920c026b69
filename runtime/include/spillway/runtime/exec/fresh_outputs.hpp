// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// The storages that a thread's last op made, pinned until its next op: framework code fills a
/// fresh tensor through its pointer after the op that made it has returned. A thread that runs no
/// further op would hold them for ever, so other threads may let go of those that are handed over
/// to the program.
///
/// The thread holds and lets go without a lock. Taking an entry out of its slot counts down the
/// pin.
class FreshOutputs {
 public:
  FreshOutputs() = default;
  ~FreshOutputs() { let_go(); }
  FreshOutputs(const FreshOutputs&) = delete;
  FreshOutputs& operator=(const FreshOutputs&) = delete;

  /// False if there is no slot left; then nothing is pinned.
  bool hold(StorageRecord& record) {
    if (used_ == kSlots) return false;
    record.pins.fetch_add(1);  // See Note [Pin, then look]
    slots_[used_++].store(&record, std::memory_order_release);
    return true;
  }
  void let_go() {
    for (; used_ != 0; --used_) release(slots_[used_ - 1]);
  }

  /// Any thread, under the engine's lock, so that no record changes hands meanwhile. True if it let
  /// go of any.
  template <class HandedOver>
  bool let_go_if(const HandedOver& handed_over) {
    bool any = false;
    for (std::atomic<StorageRecord*>& slot : slots_) {
      const StorageRecord* record = slot.load(std::memory_order_acquire);
      if (record != nullptr && handed_over(*record)) any |= release(slot);
    }
    return any;
  }

 private:
  static bool release(std::atomic<StorageRecord*>& slot) {
    StorageRecord* const record = slot.exchange(nullptr, std::memory_order_acq_rel);
    if (record != nullptr) record->unpin();
    return record != nullptr;
  }

  static constexpr std::size_t kSlots = 8;  // what further ones an op makes waits for the next op
  std::array<std::atomic<StorageRecord*>, kSlots> slots_{};
  std::size_t used_ = 0;  // the thread's own
};

}  // namespace spillway::runtime
