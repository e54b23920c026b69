// SPDX-License-Identifier: Apache-2.0
#include "look_ahead.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace spillway::runtime {

namespace {

std::int64_t signed_bytes(Bytes bytes) { return static_cast<std::int64_t>(bytes.count); }

// As when victims are chosen: a clean storage leaves for nothing.
std::uint64_t weighted(const ResidentStorage& storage) {
  return residency::weighted_distance(storage.next_use, storage.clean);
}

}  // namespace

LookAhead::LookAhead(std::vector<AwayStorage> away, Demand demand, std::uint64_t period,
                     Bytes budget)
    : demand_(std::move(demand)), budget_(budget), away_(std::move(away)), order_(away_.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::stable_sort(order_, {}, [&](std::size_t i) { return away_[i].next_use; });
  std::int64_t still_away = 0;
  for (const AwayStorage& storage : away_) still_away += signed_bytes(storage.bytes);
  std::uint64_t begin = 0;
  const auto add_stretch = [&](std::uint64_t end) {
    stretches_.push_back({begin, still_away, excess(begin, end, still_away)});
    begin = std::max(begin, end);
  };
  for (const std::size_t index : order_) {
    add_stretch(std::min(away_[index].next_use, period));
    still_away -= signed_bytes(away_[index].bytes);
  }
  add_stretch(period);
}

std::int64_t LookAhead::excess(std::uint64_t begin, std::uint64_t end, std::int64_t away) const {
  const Bytes needed = demand_(begin, end > begin ? end - begin : 0);
  return signed_bytes(needed) - signed_bytes(budget_) - away;
}

Bytes LookAhead::shortage() const {
  std::int64_t most = 0;
  for (const Stretch& stretch : stretches_) most = std::max(most, stretch.excess);
  return {static_cast<std::uint64_t>(most)};
}

std::vector<std::size_t> LookAhead::write_behind(std::span<const ResidentStorage> residents) {
  std::vector<std::size_t> farthest_first(residents.size());
  std::iota(farthest_first.begin(), farthest_first.end(), std::size_t{0});
  std::ranges::stable_sort(farthest_first, std::ranges::greater{},
                           [&](std::size_t i) { return weighted(residents[i]); });
  // An evicted storage is away until its next use: over all stretches that end before it, and a
  // part of the one it lies in.
  std::vector<std::int64_t> worst_before(stretches_.size() + 1);
  worst_before[0] = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < stretches_.size(); ++i) {
    worst_before[i + 1] = std::max(worst_before[i], stretches_[i].excess);
  }
  std::vector<std::size_t> chosen;
  std::int64_t leaving = 0;
  for (const std::size_t index : farthest_first) {
    const ResidentStorage& storage = residents[index];
    const auto after =
        std::ranges::upper_bound(stretches_, storage.next_use - 1, {}, &Stretch::begin);
    if (after == stretches_.begin()) continue;
    const auto last = static_cast<std::size_t>(after - stretches_.begin()) - 1;
    const Stretch& part = stretches_[last];
    const std::int64_t worst =
        std::max(worst_before[last], excess(part.begin, storage.next_use, part.away));
    if (worst <= leaving) continue;
    chosen.push_back(index);
    leaving += signed_bytes(storage.bytes);
  }
  for (const std::size_t index : chosen) {
    for (Stretch& stretch : stretches_) {
      if (stretch.begin >= residents[index].next_use) break;
      stretch.excess -= signed_bytes(residents[index].bytes);
    }
  }
  return chosen;
}

std::vector<std::size_t> LookAhead::prefetch() {
  std::vector<std::size_t> chosen;
  std::int64_t worst = std::numeric_limits<std::int64_t>::min();
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const AwayStorage& storage = away_[order_[i]];
    worst = std::max(worst, stretches_[i].excess);
    if (storage.next_use == residency::kNeverUsed) break;
    if (!storage.fetchable) continue;
    if (worst + signed_bytes(storage.bytes) > 0) break;
    worst += signed_bytes(storage.bytes);
    chosen.push_back(order_[i]);
  }
  return chosen;
}

}  // namespace spillway::runtime
