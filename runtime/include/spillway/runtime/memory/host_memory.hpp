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
#include <cstdlib>
#include <memory>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {

struct FreeHostPages {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
/// The memory of a copy that no budget counts any more. It is freed with the object, best after
/// every lock, since the kernel takes its time over large memory.
using HostPages = std::unique_ptr<std::byte, FreeHostPages>;

class HostMemory {
 public:
  /// Direct transfers between host and disk need whole pages that begin on one.
  static constexpr Bytes kPage{4096};

  /// A limit below what is used takes nothing away: the owner demotes down to it.
  void set_limit(Bytes limit) { budget_.set_limit(limit); }

  /// Room for a copy of `bytes`, on a page; the caller owns it until `give_back`. Null if the
  /// budget has no room (`short_by`), or the machine no memory.
  [[nodiscard]] std::byte* allocate(Bytes bytes);
  /// The room is free from now on, and the memory with what is returned. `bytes` as when it was
  /// allocated.
  [[nodiscard]] HostPages give_back(std::byte* memory, Bytes bytes) noexcept;

  /// Whether a copy of `bytes` could ever be here.
  [[nodiscard]] bool could_hold(Bytes bytes) const;
  /// The bytes that have to leave before a copy of `bytes` has room; zero if it has.
  [[nodiscard]] Bytes short_by(Bytes bytes) const;

  [[nodiscard]] const MemoryBudget& budget() const { return budget_; }

 private:
  MemoryBudget budget_{Bytes{0}};
};

}  // namespace spillway::runtime
