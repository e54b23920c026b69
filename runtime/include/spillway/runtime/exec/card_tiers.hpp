// SPDX-License-Identifier: Apache-2.0
// The tiers below and on a graphics card: its memory, page-locked memory of the host, and the disk
// through chunks of that.
//
// The budget of the host tier is SPILLWAY_HOST_BUDGET, else kHostShare of what the machine and its
// cgroup allow; the limit on locked memory does not bound it, since a card's driver does not count
// on that. The chunks for the disk, 32 MiB, come on top of it.
#pragma once

#include <memory>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/device_transfers.hpp"
#include "spillway/runtime/device/pinned_host_memory.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_tier.hpp"
#include "spillway/runtime/exec/tier_set.hpp"

namespace spillway::runtime {

struct CardOptions {
  Bytes addresses{};  ///< for tensors, for life; zero: kAddressFactor times the card's memory
  Bytes slab = PinnedHostMemory::kSlab;
  Bytes chunk{kTransferChunk};  ///< of a passage to the disk
  TickRate ticks;
};

class CardTiers final : public TierSet {
 public:
  static constexpr std::uint64_t kAddressFactor = 16;
  static constexpr double kHostShare = 0.6;

  /// Throws UserError where the device cannot be managed.
  explicit CardTiers(std::unique_ptr<DeviceDriver> driver, const CardOptions& options = {});

  StreamTier& device() override { return device_; }
  PinnedHostMemory& host() override { return host_; }
  std::unique_ptr<Transfers> transfers(std::unique_ptr<Transfers> disk) override;
  MachineMemory measure(Bytes ours) override;
  std::unique_ptr<OpTimer> op_timer() override { return std::make_unique<OpTimer>(*driver_); }
  Bytes usual_host_budget(const MachineMemory& machine) override;
  [[nodiscard]] std::string_view budget_name() const override {
    return "SPILLWAY_BUDGET (of the graphics card)";
  }

  [[nodiscard]] DeviceDriver& driver() { return *driver_; }

 private:
  const std::unique_ptr<DeviceDriver> driver_;
  StreamClock clock_;
  StreamTier device_;
  PinnedHostMemory host_;
  const Bytes chunk_;
  PinnedHostMemory chunks_;
};

}  // namespace spillway::runtime
