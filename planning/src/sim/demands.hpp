// SPDX-License-Identifier: Apache-2.0
// The items that computing asked for since it took room last, and that were not simply there.
//
// Where computing can go on in no other way, they give way: each leaves again, or has its turn
// after the fetches that were queued before it (MemoryModel::give_way).
#pragma once

#include <utility>
#include <vector>

#include "item.hpp"
#include "spillway/residency/residency_machine.hpp"

namespace spillway::planning::sim {

struct Demanded {
  ItemIndex item = 0;
  Tier tier = Tier::kHost;   // that it was on, or was about to leave for
  bool was_leaving = false;  // its copy may not have been begun
  QueuedFetch fetch{};       // that waited for its turn
};

class Demands {
 public:
  void note(ItemIndex index, const Item& item, residency::ResidencyState state) {
    const auto waits = waits_for(item);
    if (state == residency::ResidencyState::kResident && !waits) return;
    const bool on_disk = state == residency::ResidencyState::kOnDisk || item.meant_for_disk;
    demanded_.push_back(
        {.item = index,
         .tier = waits.value_or(on_disk ? Tier::kDisk : Tier::kHost),
         .was_leaving = waits.has_value() || state == residency::ResidencyState::kEvicting,
         .fetch = item.fetch});
  }
  /// All that are to give way, once until reset(); none after that.
  std::vector<Demanded> give_way() {
    if (std::exchange(gave_way_, true)) return {};
    return std::exchange(demanded_, {});
  }
  [[nodiscard]] bool gave_way() const { return gave_way_; }
  /// Computing has taken its room.
  void reset() {
    demanded_.clear();
    gave_way_ = false;
  }

 private:
  std::vector<Demanded> demanded_;
  bool gave_way_ = false;
};

}  // namespace spillway::planning::sim
