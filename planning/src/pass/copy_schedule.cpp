// SPDX-License-Identifier: Apache-2.0
#include "pass/copy_schedule.hpp"

#include <algorithm>

namespace spillway::planning::pass {

CopySchedule::CopySchedule(const StepModel& model, const std::vector<double>& deadlines)
    : model_(model), arrivals_(kTierCount, ArrivalQueue(deadlines)) {}

double CopySchedule::out_ns(Tier tier, std::uint64_t bytes) const {
  const double device = model_.has_host() ? model_.copy_ns(LinkKind::kDeviceToHost, bytes) : 0;
  return tier == Tier::kHost ? device
                             : std::max(device, model_.copy_ns(LinkKind::kHostToDisk, bytes));
}

double CopySchedule::in_ns(Tier tier, std::uint64_t bytes) const {
  return tier == Tier::kHost ? model_.copy_ns(LinkKind::kHostToDevice, bytes)
                             : model_.copy_ns(LinkKind::kDiskToHost, bytes);
}

LinkClock::Slot CopySchedule::look_out(Tier tier, double ready, std::uint64_t bytes) const {
  return out_[index_of(tier)].look(ready, out_ns(tier, bytes));
}

LinkClock::Slot CopySchedule::take_out(Tier tier, double ready, std::uint64_t bytes) {
  return out_[index_of(tier)].take(ready, out_ns(tier, bytes));
}

void CopySchedule::leaves_at(double end, std::uint64_t bytes) {
  leaving_.push({end, bytes});
  leaving_bytes_ += bytes;
}

double CopySchedule::wait_for_room(double time, std::uint64_t bytes, const DeviceRoom& room) {
  while (!leaving_.empty() && (leaving_.top().first <= time || !room.has(leaving_bytes_ + bytes))) {
    time = std::max(time, leaving_.top().first);
    leaving_bytes_ -= leaving_.top().second;
    leaving_.pop();
  }
  return time;
}

void CopySchedule::add_away(Tier tier, Row storage, Row position) {
  arrivals_[index_of(tier)].add(position, in_ns(tier, model_.table.bytes(storage)));
  away_[index_of(tier)].insert({position, storage});
}

void CopySchedule::remove_away(Tier tier, Row storage, Row position) {
  arrivals_[index_of(tier)].remove(position, in_ns(tier, model_.table.bytes(storage)));
  away_[index_of(tier)].erase({position, storage});
}

double CopySchedule::take_in(Tier tier, double now, std::uint64_t bytes, const DeviceRoom& room) {
  double ready = now;
  if (tier == Tier::kDisk) {
    double& free = in_free_[index_of(Tier::kDisk)];
    free = std::max(free, now) + model_.copy_ns(LinkKind::kDiskToHost, bytes);
    ready = free;
  }
  ready = wait_for_room(ready, 0, room);
  if (!model_.has_host()) return ready;
  double& free = in_free_[index_of(Tier::kHost)];
  free = std::max(free, ready) + model_.copy_ns(LinkKind::kHostToDevice, bytes);
  return free;
}

}  // namespace spillway::planning::pass
