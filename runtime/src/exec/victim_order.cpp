// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/victim_order.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace spillway::runtime {

using residency::Candidate;

void StorageRecord::push_stale() noexcept {
  if (stale != nullptr) stale->push(*this);
}

bool leaves_unless_pinned(const StorageRecord& record, Bytes min_size) {
  return record.block != nullptr &&
         record.state.load(std::memory_order_relaxed) == residency::ResidencyState::kResident &&
         (record.owner.load(std::memory_order_relaxed) != nullptr || record.orphaned.load()) &&
         record.kept == 0 && record.bytes >= min_size;
}

// Ties as in residency::leaves_before: large ones first, then by id.
bool VictimOrder::Before::operator()(const Entry& a, const Entry& b) const {
  return std::tuple(a.rank, ~a.candidate.bytes.count, a.candidate.id) <
         std::tuple(b.rank, ~b.candidate.bytes.count, b.candidate.id);
}

VictimOrder::Group VictimOrder::group_of(const Candidate& candidate, std::uint64_t now) {
  if (candidate.next_use == residency::kNeverUsed) return kNever;
  if (candidate.next_use != residency::kUnknownUse && candidate.next_use >= now) {
    return candidate.clean ? kKnownClean : kKnownDirty;
  }
  return candidate.clean ? kUnknownClean : kUnknownDirty;
}

VictimOrder::Entry VictimOrder::entry_of(StorageRecord& record, const Candidate& candidate,
                                         Group group) {
  std::uint64_t rank = candidate.last_use;
  if (group == kNever) rank = candidate.clean ? 0 : 1;
  if (group == kKnownDirty || group == kKnownClean) rank = ~candidate.next_use;
  return {.rank = rank, .candidate = candidate, .record = &record};
}

// Nodes move from queue to queue, so that only a record that is new here takes memory.
void VictimOrder::put(StorageRecord& record, std::uint64_t now, Bytes min_size) {
  Queue::node_type node;
  if (const auto place = places_.find(&record); place != places_.end()) {
    node = queues_[place->second.group].extract(place->second.entry);
    places_.erase(place);
  }
  const bool pinned = record.pins.load() != 0;
  if (!leaves_unless_pinned(record, min_size)) return;
  const Candidate candidate{.id = record.id,
                            .bytes = record.bytes,
                            .last_use = record.last_use.load(std::memory_order_relaxed),
                            .next_use = record.next_use.load(std::memory_order_relaxed),
                            .clean = record.has_copy.load(std::memory_order_relaxed)};
  const Group group = pinned && record.parked.load() ? kPinned : group_of(candidate, now);
  if (group != kPinned) record.parked.store(false);
  const Entry entry = entry_of(record, candidate, group);
  Queue::iterator at;
  if (node.empty()) {
    at = queues_[group].insert(entry).first;
  } else {
    node.value() = entry;
    at = queues_[group].insert(std::move(node)).position;
  }
  places_[&record] = {group, at};
}

void VictimOrder::move_past(Group known, Group unknown, std::uint64_t now) {
  Queue& queue = queues_[known];
  while (!queue.empty() && std::prev(queue.end())->candidate.next_use < now) {
    auto node = queue.extract(std::prev(queue.end()));
    node.value() = entry_of(*node.value().record, node.value().candidate, unknown);
    const StorageRecord* const record = node.value().record;
    places_[record] = {unknown, queues_[unknown].insert(std::move(node)).position};
  }
}

// Behind `entry`, which is taken out of its group if it is pinned. Whoever ends its last pin pushes
// it: either that is seen here, or `parked` there.
VictimOrder::Queue::iterator VictimOrder::park(Queue::iterator entry, Group group) {
  StorageRecord& record = *entry->record;
  const auto next = std::next(entry);
  record.parked.store(true);
  if (record.pins.load() == 0) {
    record.parked.store(false);
    return entry;
  }
  auto node = queues_[group].extract(entry);
  places_[&record] = {kPinned, queues_[kPinned].insert(std::move(node)).position};
  return next;
}

void VictimOrder::set_aside(const StorageRecord& record) {
  const auto place = places_.find(&record);
  if (place == places_.end()) return;
  queues_[place->second.group].erase(place->second.entry);
  places_.erase(place);
}

// The front of each group, and the one of them that leaves first. What is handed out stays in its
// queue, and what is pinned leaves it.
class VictimOrder::Merged final : public residency::LeavingOrder {
 public:
  Merged(VictimOrder& order, std::uint64_t now) : order_(order), now_(now) {
    for (std::size_t group = 0; group < kPinned; ++group) {
      fronts_[group] = order_.queues_[group].begin();
    }
  }
  const Candidate* next() override {
    std::size_t first = kPinned;
    for (std::size_t group = 0; group < kPinned; ++group) {
      if (!reach_free(static_cast<Group>(group))) continue;
      if (first == kPinned ||
          residency::leaves_before(fronts_[group]->candidate, fronts_[first]->candidate, now_)) {
        first = group;
      }
    }
    if (first == kPinned) return nullptr;
    const Entry& entry = *fronts_[first]++;
    handed_out_.emplace_back(entry.candidate.id, entry.record);
    return &entry.candidate;
  }
  [[nodiscard]] StorageRecord* record(StorageId id) {
    if (!sorted_) std::ranges::sort(handed_out_);
    sorted_ = true;
    return std::ranges::lower_bound(handed_out_, id, {}, &Handed::first)->second;
  }

 private:
  using Handed = std::pair<StorageId, StorageRecord*>;

  bool reach_free(Group group) {
    Queue::iterator& front = fronts_[group];
    while (front != order_.queues_[group].end() && front->record->pins.load() != 0) {
      front = order_.park(front, group);
    }
    return front != order_.queues_[group].end();
  }

  VictimOrder& order_;
  std::uint64_t now_;
  std::array<Queue::iterator, kPinned> fronts_;
  std::vector<Handed> handed_out_;
  bool sorted_ = false;
};

std::vector<StorageRecord*> VictimOrder::choose(Bytes needed, std::uint64_t now, Bytes min_size) {
  stale_.take([&](StorageRecord& record) { put(record, now, min_size); });
  move_past(kKnownDirty, kUnknownDirty, now);
  move_past(kKnownClean, kUnknownClean, now);
  Merged merged(*this, now);
  std::vector<StorageRecord*> victims;
  for (const StorageId id : residency::choose_victims(merged, needed, now)) {
    victims.push_back(merged.record(id));
  }
  return victims;
}

}  // namespace spillway::runtime
