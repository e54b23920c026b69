// SPDX-License-Identifier: Apache-2.0
#include "departures.hpp"

#include <algorithm>

namespace spillway::planning::sim {

using residency::EventKind;
using residency::ResidencyState;

bool Departures::is_moving(ItemIndex index) const {
  const Item& item = holdings_[index];
  return item.fetch.stands() || waits_for(item) || residency::in_flight(holdings_.state(index));
}

Bytes Departures::room(Tier tier) const {
  const Bytes promised = tier == Tier::kDisk ? passage_.promised() : Bytes{};
  return saturating_sub(problem_.budgets[tier], holdings_.used(tier) + promised);
}

void Departures::evict(ItemIndex index, Tier tier) {
  Item& item = holdings_[index];
  item.fetch = {};
  if (tier == Tier::kDisk) passage_.mean_for_disk(index);
  switch (holdings_.state(index)) {
    case ResidencyState::kResident:
      leave(index, tier);
      break;
    case ResidencyState::kOnHost:
      if (tier == Tier::kDisk) demote(index);
      break;
    case ResidencyState::kEvicting:
      // Where it was written meanwhile, the machine keeps it: then it has to leave once more.
      item.pending = LeavesAgain{tier};
      if (tier == Tier::kDisk) HostPassage::go_on(item);
      holdings_.send(index, EventKind::kEvict, tier);
      break;
    case ResidencyState::kFetching:
      passage_.stay(item);
      if (tier == Tier::kDisk) HostPassage::go_on(item);
      holdings_.send(index, EventKind::kEvict, tier);  // it is not wanted any more
      break;
    case ResidencyState::kDemoting:
      holdings_.send(index, EventKind::kEvict, tier);
      break;
    default:
      break;
  }
}

void Departures::leave(ItemIndex index, Tier tier) {
  Item& item = holdings_[index];
  if (!holdings_.has_slower_copy(item)) {
    // Where the plan has a copy already, it has no room elsewhere.
    const Tier target = item.meant_for_disk ? Tier::kDisk : tier;
    item.pending = WaitsToLeave{target};
    // Not ahead of others: the plan has room for all in their order.
    const bool in_turn = target == Tier::kDisk || !first_in_line();
    if (!in_turn || !try_leave(index)) in_line_.push_back(index);
    return;
  }
  holdings_.send(index, EventKind::kEvict, tier);
  holdings_.note_levels();
  if (tier == Tier::kDisk && holdings_.state(index) == ResidencyState::kOnHost) {
    start_demotion(index);
  }
}

bool Departures::try_leave(ItemIndex index) {
  Item& item = holdings_[index];
  const Tier target = *waits_for(item);
  const bool through_host = problem_.machine.link(LinkKind::kDeviceToHost).has_value();
  const bool host_has_room = through_host && item.bytes <= room(Tier::kHost);
  if (target == Tier::kHost && !host_has_room) return false;
  if (target == Tier::kDisk && item.bytes > room(Tier::kDisk)) return false;
  item.pending = {};
  const bool stays_on_host = target == Tier::kHost || host_has_room;
  if (target == Tier::kDisk && stays_on_host) passage_.go_on_with_room(item);
  holdings_.send(index, EventKind::kEvict, stays_on_host ? Tier::kHost : Tier::kDisk);
  holdings_.note_levels();
  const Copy copy{.item = index,
                  .leg = stays_on_host  ? Leg::kOut
                         : through_host ? Leg::kOutFirst
                                        : Leg::kOutSecond};
  queues_.push(through_host ? LinkKind::kDeviceToHost : LinkKind::kHostToDisk, copy);
  return true;
}

void Departures::demote(ItemIndex index) {
  Item& item = holdings_[index];
  item.fetch = {};
  passage_.mean_for_disk(index);
  const ResidencyState now = holdings_.state(index);
  if (now == ResidencyState::kOnHost) {
    start_demotion(index);
  } else if (now == ResidencyState::kEvicting) {
    HostPassage::go_on(item);
    if (item.bytes <= room(Tier::kDisk)) passage_.go_on_with_room(item);
  } else if (waits_for(item)) {
    item.pending = WaitsToLeave{Tier::kDisk};
  }
}

void Departures::start_demotion(ItemIndex index) {
  holdings_[index].pending = WaitsToLeave{Tier::kDisk};
  if (!try_demote(index)) in_line_.push_back(index);
}

bool Departures::try_demote(ItemIndex index) {
  Item& item = holdings_[index];
  const bool clean = holdings_.has_copy(item, Tier::kDisk);
  const bool has_room = item.onward == Onward::kGoesOnWithRoom || item.bytes <= room(Tier::kDisk);
  if (!clean && !has_room) return false;
  item.pending = {};
  passage_.stay(item);
  holdings_.send(index, EventKind::kEvict, Tier::kDisk);
  holdings_.note_levels();
  if (!clean) queues_.push(LinkKind::kHostToDisk, {.item = index, .leg = Leg::kDemote});
  return true;
}

bool Departures::drop(ItemIndex index) {
  Item& item = holdings_[index];
  withdraw(item);
  if (is_moving(index)) {
    item.pending = IsDroppedNext{};
    return false;
  }
  holdings_.drop(index);
  return true;
}

void Departures::settle(ItemIndex index) {
  holdings_.note_levels();
  Item& item = holdings_[index];
  if (!holdings_.contains(item)) return;
  if (is_dropped_next(item)) {
    drop(index);
    return;
  }
  std::optional<Tier> leaves_for;
  if (const auto* again = std::get_if<LeavesAgain>(&item.pending)) {
    leaves_for = again->tier;
    item.pending = {};
  }
  const ResidencyState now = holdings_.state(index);
  if (now == ResidencyState::kResident) {
    passage_.stay(item);
    if (leaves_for) leave(index, *leaves_for);
  } else if (now == ResidencyState::kOnHost && item.onward != Onward::kStays) {
    if (item.onward == Onward::kGoesOn) passage_.stay(item);
    start_demotion(index);
  }
}

// --- in line ---

void Departures::retry_in_line() {
  while (!in_line_.empty()) {
    const ItemIndex index = in_line_.front();
    if (const auto tier = waits_for(holdings_[index])) {
      const bool on_host = holdings_.state(index) == ResidencyState::kOnHost;
      const bool left = on_host ? try_demote(index) : try_leave(index);
      if (!left && tier == Tier::kHost && clear_passage()) continue;
      if (!left) return;
    }
    in_line_.pop_front();
  }
}

std::optional<std::pair<ItemIndex, Tier>> Departures::first_in_line() const {
  for (const ItemIndex index : in_line_) {
    if (const auto tier = waits_for(holdings_[index])) return {{index, *tier}};
  }
  return std::nullopt;
}

/// Gives up a copy on the host that the plan does not have there. True if that made room at once;
/// what is under way makes some when it ends.
bool Departures::clear_passage() {
  const auto& passing = passage_.passing();
  return std::any_of(passing.begin(), passing.end(),
                     [this](ItemIndex index) { return leaves_passage(index); });
}

bool Departures::leaves_passage(ItemIndex index) {
  Item& item = holdings_[index];
  if (!holdings_.has_copy(item, Tier::kHost)) return false;
  switch (holdings_.state(index)) {
    case ResidencyState::kResident:
      holdings_.send(index, EventKind::kWrite);  // a copy on the disk goes as well
      item.meant_for_disk = true;
      holdings_.note_levels();
      return true;
    case ResidencyState::kOnHost: {
      const Bytes before = holdings_.used(Tier::kHost);
      if (!waits_for(item)) try_demote(index);
      return holdings_.used(Tier::kHost) < before;
    }
    default:
      return false;
  }
}

}  // namespace spillway::planning::sim
