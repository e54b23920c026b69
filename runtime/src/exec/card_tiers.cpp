// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/card_tiers.hpp"

#include <utility>

#include "budget_share.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

CardTiers::CardTiers(std::unique_ptr<DeviceDriver> driver, const CardOptions& options)
    : driver_(std::move(driver)),
      clock_(*driver_, options.ticks),
      device_(clock_, kNoLimit,
              options.addresses.count != 0 ? options.addresses
                                           : driver_->facts().memory * kAddressFactor,
              OpensAhead::kOnThread),
      host_(clock_, Bytes{}, options.slab),
      chunk_(options.chunk),
      chunks_(clock_, options.chunk * DiskPassage::kChunks, options.chunk * DiskPassage::kChunks) {}

std::unique_ptr<Transfers> CardTiers::transfers(std::unique_ptr<Transfers> disk) {
  return std::make_unique<DeviceTransfers>(clock_, device_, host_, chunks_, chunk_,
                                           std::move(disk));
}

// One card is one process's as a rule: launchers give each of their processes another.
MachineMemory CardTiers::measure(Bytes ours) {
  DeviceMemoryInfo info;
  expect_done(*driver_, driver_->memory_info(info), "asking for its free memory");
  return {.total = info.total, .available = info.free, .ours = ours, .local_processes = 1};
}

// Not bounded by RLIMIT_MEMLOCK, commonly 8 MiB: NVIDIA's driver page-locks in the kernel itself
// and does not count on it. What it refuses is had all the same, see PinnedHostMemory.
Bytes CardTiers::usual_host_budget(const MachineMemory& machine) {
  return {static_cast<std::uint64_t>(kHostShare * static_cast<double>(machine.available.count) /
                                     machine.local_processes)};
}

}  // namespace spillway::runtime
