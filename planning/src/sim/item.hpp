// SPDX-License-Identifier: Apache-2.0
// One storage from its creation to its death, over the end of a step too, where the trace's row of
// it may change: what a simulation knows of it beside its state in the residency machine.
//
//     fetch     that is queued, its Use not sent yet
//     pending   a wish of the plan that cannot be met yet
//     onward    from the host to the disk, of its own
//
// The three are about different ways, and each is one of several that exclude each other.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/machine/tier.hpp"

namespace spillway::planning::sim {

using ItemIndex = std::uint32_t;

/// A fetch that stands in a queue, if it has a turn.
struct QueuedFetch {
  std::uint32_t order : 30 = 0;  // its turn where it is not urgent; 0: none yet
  bool urgent : 1 = false;       // queued ahead
  bool forgets : 1 = false;      // its slower copies on arrival

  [[nodiscard]] bool stands() const { return order != 0; }
};

/// For room on the tier.
struct WaitsToLeave {
  Tier tier = Tier::kHost;
};
/// For the tier, when the copy in flight has ended.
struct LeavesAgain {
  Tier tier = Tier::kHost;
};
/// When the copy in flight has ended.
struct IsDroppedNext {};
using Pending = std::variant<std::monostate, WaitsToLeave, LeavesAgain, IsDroppedNext>;

/// Whether an item goes on to the disk when it is on the host.
enum class Onward : std::uint8_t { kStays, kGoesOn, kGoesOnWithRoom /* promised on the disk */ };

struct Item {
  StorageId id{};  // of the machine
  Bytes bytes{};
  std::uint32_t row = 0;     // of the trace's storages
  std::uint32_t ticket = 0;  // of its latest queued fetch
  QueuedFetch fetch{};
  Pending pending{};
  Onward onward = Onward::kStays;
  bool meant_for_disk : 1 = false;  // the plan has its slower copy there
  bool on_device : 1 = true;        // has room there, if only for copies under way

  [[nodiscard]] StorageId storage() const { return StorageId{row}; }
};
static_assert(sizeof(Item) <= 32);  // an op looks at many, all over the step

/// The tier that it waits for room on, if it does.
inline std::optional<Tier> waits_for(const Item& item) {
  const auto* waits = std::get_if<WaitsToLeave>(&item.pending);
  return waits == nullptr ? std::nullopt : std::optional(waits->tier);
}
inline bool is_dropped_next(const Item& item) {
  return std::holds_alternative<IsDroppedNext>(item.pending);
}
/// It is used or on its way back: only a drop stays pending.
inline void keep(Item& item) {
  if (!is_dropped_next(item)) item.pending = {};
}

}  // namespace spillway::planning::sim
