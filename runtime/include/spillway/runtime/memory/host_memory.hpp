// SPDX-License-Identifier: Apache-2.0
// The host tier: memory below a device, within a budget of its own.
//
//     limit  |--------------------------------|
//     used   |= copies, in whole pages =|
//
// Where the device tier is the machine's own memory there is no host tier, and its limit is zero.
// Not thread-safe: guarded by its owner's lock.
#pragma once

#include <cstddef>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/host_room.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {

class HostMemory final : public HostRoom {
 public:
  /// Direct transfers between host and disk need whole pages that begin on one.
  static constexpr Bytes kPage{4096};

  HostMemory() = default;

  void set_limit(Bytes limit) override { budget_.set_limit(limit); }
  [[nodiscard]] std::byte* allocate(Bytes bytes) override;
  [[nodiscard]] HostPages give_back(std::byte* memory, Bytes bytes) noexcept override;
  [[nodiscard]] bool could_hold(Bytes bytes) const override;
  [[nodiscard]] Bytes short_by(Bytes bytes) const override;
  [[nodiscard]] Bytes used() const override { return budget_.used(); }

  [[nodiscard]] const MemoryBudget& budget() const { return budget_; }

 private:
  MemoryBudget budget_{Bytes{0}};
};

}  // namespace spillway::runtime
