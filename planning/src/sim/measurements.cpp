// SPDX-License-Identifier: Apache-2.0
#include "measurements.hpp"

#include <algorithm>
#include <utility>

namespace spillway::planning::sim {

void Measurements::begin_step(TimeNs now, const std::array<Bytes, kTierCount>& levels) {
  report_ = {};
  began_ = now;
  note_levels(now, OpIndex{0}, levels);
}

void Measurements::add_levels(TimeNs now, const std::array<Bytes, kTierCount>& levels) {
  TimelineLevel level{.time = now - began_, .bytes = levels, .on_device = on_device_};
  Bytes of_storages{};
  for (const Bytes bytes : on_device_) of_storages += bytes;
  level.on_device[index_of(StorageRole::kWorkspace)] +=
      levels[index_of(Tier::kDevice)] - of_storages;
  add_level(level);
}

void Measurements::add_level(TimelineLevel level) {
  const auto device = [](const TimelineLevel& of) { return of.bytes[index_of(Tier::kDevice)]; };
  auto& line = report_.timeline.levels;
  if (!line.empty()) {
    const TimelineLevel& last = line.back();
    if (last.bytes == level.bytes && last.on_device == level.on_device) return;
  }
  std::size_t here = line.size();  // where the levels of this instant begin
  while (here > 0 && line[here - 1].time == level.time) --here;
  if (here < line.size()) {
    const TimelineLevel highest = *std::max_element(
        line.begin() + static_cast<std::ptrdiff_t>(here), line.end(),
        [&](const TimelineLevel& a, const TimelineLevel& b) { return device(a) < device(b); });
    line.resize(here);
    const Bytes before = here == 0 ? Bytes{} : device(line.back());
    if (device(highest) > std::max(before, device(level))) line.push_back(highest);
  }
  line.push_back(level);
}

void Measurements::note_stall(StallCause cause, TimeNs begin, TimeNs end, OpIndex op,
                              StorageId storage) {
  if (begin == end) return;
  report_.stall_ns[index_of(cause)] += end - begin;
  add_span({.kind = TimelineSpan::Kind::kStall,
            .cause = cause,
            .begin = begin,
            .end = end,
            .op = op,
            .storage = storage});
}

void Measurements::note_op(TimeNs begin, TimeNs end, OpIndex op) {
  report_.compute_ns += end - begin;
  add_span({.kind = TimelineSpan::Kind::kOp, .begin = begin, .end = end, .op = op});
}

void Measurements::note_recomputation(TimeNs begin, TimeNs end, OpIndex op) {
  ++report_.recomputations;
  report_.stall_ns[index_of(StallCause::kRecompute)] += end - begin;
  add_span({.kind = TimelineSpan::Kind::kRecompute, .begin = begin, .end = end, .op = op});
}

void Measurements::note_copy(LinkKind link, TimeNs begin, TimeNs end, OpIndex op, StorageId storage,
                             Bytes bytes) {
  LinkUse& use = report_.links[index_of(link)];
  use.bytes += bytes;
  ++use.copies;
  use.busy_ns += end - begin;
  add_span({.kind = TimelineSpan::Kind::kCopy,
            .link = link,
            .begin = begin,
            .end = end,
            .op = op,
            .storage = storage});
}

void Measurements::add_span(TimelineSpan span) {
  if (!with_timeline_) return;
  span.begin -= began_;
  span.end -= began_;
  report_.timeline.spans.push_back(span);
}

SimulationReport Measurements::take(TimeNs now) {
  report_.step_ns = now - began_;
  std::stable_sort(report_.timeline.spans.begin(), report_.timeline.spans.end(),
                   [](const TimelineSpan& a, const TimelineSpan& b) { return a.begin < b.begin; });
  return std::exchange(report_, {});
}

}  // namespace spillway::planning::sim
