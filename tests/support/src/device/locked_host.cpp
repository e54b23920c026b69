// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/locked_host.hpp"

#include <algorithm>
#include <iterator>

namespace spillway::testing {

bool LockedHost::lock(const HostRange& range) {
  const auto next = locked_.lower_bound(range.begin);
  const bool below = next != locked_.begin() && std::prev(next)->second > range.begin;
  const bool above = next != locked_.end() && next->first < range.end();
  if (range.begin == 0 || range.bytes == 0 || below || above) return false;
  locked_[range.begin] = range.end();
  locked_bytes_ += Bytes{range.bytes};
  return true;
}

LockedHost::Unlocked LockedHost::unlock(const std::byte* memory) {
  const auto found = locked_.find(HostRange(memory, {}).begin);
  if (found == locked_.end()) return Unlocked::kNothingThere;
  const auto [begin, end] = *found;
  const bool used = std::ranges::any_of(copies_, [begin = begin, end = end](const auto& copy) {
    const auto& [range, mark] = copy;
    return !mark->passed && range.begin < end && begin < range.end();
  });
  if (used) return Unlocked::kInUse;
  locked_bytes_ -= Bytes{end - begin};
  locked_.erase(found);
  return Unlocked::kDone;
}

bool LockedHost::contains(const HostRange& range) const {
  const auto after = locked_.upper_bound(range.begin);
  return after != locked_.begin() && range.end() <= std::prev(after)->second;
}

void LockedHost::note_copy(const HostRange& range, std::shared_ptr<StreamMark> mark) {
  std::erase_if(copies_, [](const auto& copy) { return copy.second->passed; });
  copies_.emplace_back(range, std::move(mark));
}

}  // namespace spillway::testing
