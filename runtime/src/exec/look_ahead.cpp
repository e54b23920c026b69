// SPDX-License-Identifier: Apache-2.0
#include "look_ahead.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace spillway::runtime {

namespace {

std::int64_t signed_bytes(Bytes bytes) { return static_cast<std::int64_t>(bytes.count); }

}  // namespace

// From one next use of an away storage to the following one, the same storages are away.
std::vector<std::size_t> choose_prefetches(std::span<const AwayStorage> away,
                                           const CountedDemand& demand, std::uint64_t period,
                                           Bytes budget) {
  std::vector<std::size_t> by_use(away.size());
  std::iota(by_use.begin(), by_use.end(), std::size_t{0});
  std::ranges::stable_sort(by_use, {}, [&](std::size_t i) { return away[i].next_use; });
  std::int64_t still_away = 0;
  for (const AwayStorage& storage : away) still_away += signed_bytes(storage.bytes);
  std::vector<std::size_t> chosen;
  std::uint64_t begin = 0;
  std::int64_t worst = std::numeric_limits<std::int64_t>::min();  // excess over the budget
  for (const std::size_t index : by_use) {
    const AwayStorage& storage = away[index];
    const std::uint64_t end = std::min(storage.next_use, period);
    const Bytes needed = demand(begin, end > begin ? end - begin : 0);
    worst = std::max(worst, signed_bytes(needed) - signed_bytes(budget) - still_away);
    begin = std::max(begin, end);
    still_away -= signed_bytes(storage.bytes);
    if (storage.next_use == residency::kNeverUsed) break;
    if (!storage.fetchable) continue;
    if (worst + signed_bytes(storage.bytes) > 0) break;
    worst += signed_bytes(storage.bytes);
    chosen.push_back(index);
  }
  return chosen;
}

}  // namespace spillway::runtime
