// SPDX-License-Identifier: Apache-2.0
// The engines of this process: one for each device whose storages Spillway keeps within a budget,
// which today is one device: the CPU, or a graphics card, as the first budget says.
//
//     storage --its device--> DeviceEngine: torch's side of the device | the engine
//                             or none: Spillway never moves it
//
// All are made at the first use and none is destroyed, since storages outlive main. So any thread
// looks them up without a lock.
//
// An op's frame is that engine's, whatever devices the op uses: what it pins is the thread's.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "session/card.hpp"
#include "session/storage_owner.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/exec/tier_set.hpp"
#include "spillway/runtime/settings.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

class DeviceEngine {
 public:
  /// `deleter` frees the memory that the engine gave out, and marks it as the engine's.
  DeviceEngine(c10::Device device, c10::DeleterFnPtr deleter)
      : device_(device), deleter_(deleter), framework_(device, deleter), engine_(framework_) {}
  DeviceEngine(c10::Device device, c10::DeleterFnPtr deleter,
               std::unique_ptr<runtime::TierSet> tiers)
      : device_(device),
        deleter_(deleter),
        framework_(device, deleter),
        engine_(framework_, std::move(tiers)) {}
  DeviceEngine(const DeviceEngine&) = delete;
  DeviceEngine& operator=(const DeviceEngine&) = delete;

  /// The CPU is one device, whatever index it is given.
  [[nodiscard]] bool serves(c10::Device device) const {
    return device.type() == device_.type() && (device_.is_cpu() || device == device_);
  }
  [[nodiscard]] bool is_cpu() const { return device_.is_cpu(); }
  [[nodiscard]] runtime::Engine& engine() { return engine_; }
  [[nodiscard]] TorchFramework& framework() { return framework_; }

  /// The record of the storage's memory, or null if the engine does not move it. While it is
  /// evicted the pointer may be null; the context of a DataPtr of ours is the address for life.
  [[nodiscard]] runtime::StorageRecord* record_of(c10::StorageImpl& storage) const;
  /// Binds `record` to the storage whose memory it describes, unless it is bound to it already or
  /// the memory is not ours to move. Done when an op first shows the storage, and anew if the
  /// memory moved to another StorageImpl since. `shown_by`: the tensor that an op made with it. Any
  /// thread.
  void bind(runtime::StorageRecord& record, c10::StorageImpl& storage,
            c10::TensorImpl* shown_by = nullptr);
  /// No weak reference to a tensor is held for `record` from now on, if it describes this storage:
  /// torch swaps the contents of two tensors only where there is none. Any thread.
  void release_tensor(runtime::StorageRecord& record, c10::StorageImpl& storage);

 private:
  c10::Device device_;
  c10::DeleterFnPtr deleter_;
  TorchFramework framework_;
  runtime::Engine engine_;
};

/// A storage that an engine moves, or none.
struct Managed {
  DeviceEngine* device = nullptr;
  runtime::StorageRecord* record = nullptr;

  explicit operator bool() const { return record != nullptr; }
  [[nodiscard]] runtime::Engine& engine() const { return device->engine(); }
};

class Engines {
 public:
  static Engines& get();
  /// Null before `make_for`: nothing is managed yet.
  static const Engines* made();
  /// Makes them for the device that the budget is of, unless they are there. A budget that names
  /// none is of the device that is managed already, else of a card if torch has one, else of the
  /// CPU. Throws UserError where its device cannot be managed, or another is.
  static void make_for(const runtime::Settings& settings);

  [[nodiscard]] DeviceEngine& main() const { return *devices_.front(); }
  /// Null where the CPU's storages are managed.
  [[nodiscard]] Card* card() const { return card_.get(); }
  /// That of the storage's device, or null.
  [[nodiscard]] DeviceEngine* of(const c10::StorageImpl& storage) const {
    const c10::Device device = storage.device();
    for (const auto& each : devices_) {
      if (each->serves(device)) return each.get();
    }
    return nullptr;
  }
  /// The storage with the engine that moves it; none before `make_for`.
  [[nodiscard]] static Managed find(c10::StorageImpl& storage);
  /// The same, bound to its record.
  [[nodiscard]] static Managed find_bound(c10::StorageImpl& storage);
  /// The storage that `address` lies in. For fault handlers: takes no lock.
  [[nodiscard]] static Managed find_at(const void* address);
  template <class Visit>
  void each(const Visit& visit) const {
    for (const auto& device : devices_) visit(device->engine());
  }

 private:
  Engines();

  std::unique_ptr<Card> card_;
  std::vector<std::unique_ptr<DeviceEngine>> devices_;
};

/// The engine whose frames ops open.
inline runtime::Engine& main_engine() { return Engines::get().main().engine(); }

}  // namespace spillway::torch
