// SPDX-License-Identifier: Apache-2.0
// The tiers that an engine moves storages between, and what copies among them.
//
//     RamTiers    the machine's memory | host memory below an emulated device | disk
//     CardTiers   a card's memory | page-locked memory | disk
//
// Guarded by the engine's lock, but for `transfers` and `measure`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/op_timer.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/memory/host_memory.hpp"
#include "spillway/runtime/memory/host_room.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

class TierSet {
 public:
  virtual ~TierSet() = default;
  TierSet(const TierSet&) = delete;
  TierSet& operator=(const TierSet&) = delete;

  virtual DeviceTier& device() = 0;
  virtual HostRoom& host() = 0;
  /// Copies among all tiers, made of those of the disk. The tiers outlive them.
  virtual std::unique_ptr<Transfers> transfers(std::unique_ptr<Transfers> disk) = 0;
  /// The setting of the device's budget, as errors call it.
  [[nodiscard]] virtual std::string_view budget_name() const { return "SPILLWAY_BUDGET"; }
  /// What budgets of the device are shares of; `ours`: what is held there.
  virtual MachineMemory measure(Bytes ours) = 0;
  /// Times ops where streams do the work. Null: they run when they are called.
  virtual std::unique_ptr<OpTimer> op_timer() { return nullptr; }
  /// The budget of the host tier where no setting states one; zero: there is no such tier.
  virtual Bytes usual_host_budget(const MachineMemory& machine) = 0;

 protected:
  TierSet() = default;
};

class RamTiers final : public TierSet {
 public:
  explicit RamTiers(std::unique_ptr<DeviceTier> device) : device_(std::move(device)) {}

  DeviceTier& device() override { return *device_; }
  HostRoom& host() override { return host_; }
  std::unique_ptr<Transfers> transfers(std::unique_ptr<Transfers> disk) override { return disk; }
  MachineMemory measure(Bytes ours) override;
  Bytes usual_host_budget(const MachineMemory& /*machine*/) override { return {}; }

 private:
  const std::unique_ptr<DeviceTier> device_;
  HostMemory host_;
};

}  // namespace spillway::runtime
