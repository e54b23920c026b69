// SPDX-License-Identifier: Apache-2.0
#include "spillway/residency/victims.hpp"

#include <algorithm>
#include <tuple>

namespace spillway::residency {
namespace {

// Distances are kept in tenths, so that 10 % is exact; longer ones than this are all alike.
constexpr std::uint64_t kLongestFinite = std::uint64_t{1} << 59;
constexpr std::uint64_t kInfinite = std::numeric_limits<std::uint64_t>::max();

struct Ranked {
  std::uint64_t tenths;  // weighted distance to the next use
  const Candidate* candidate;
};

std::uint64_t weighted_distance(const Candidate& candidate, std::uint64_t now) {
  if (candidate.next_use == kNeverUsed) return kInfinite;
  const bool known = candidate.next_use != kUnknownUse && candidate.next_use >= now;
  const std::uint64_t distance =
      known ? candidate.next_use - now : now - std::min(now, candidate.last_use);
  return std::min(distance, kLongestFinite) * (candidate.clean ? 11 : 10);
}

// Order of a max-heap: true if `a` is the worse victim. Ties: a clean one costs nothing, a large
// one saves further victims, and the id makes the choice repeatable.
bool worse(const Ranked& a, const Ranked& b) {
  const auto key = [](const Ranked& r) {
    return std::tuple(r.tenths, r.candidate->clean, r.candidate->bytes, ~to_value(r.candidate->id));
  };
  return key(a) < key(b);
}

std::vector<Ranked> ranked_heap(std::span<const Candidate> candidates, std::uint64_t now) {
  std::vector<Ranked> heap;
  heap.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    if (candidate.bytes > Bytes{0}) heap.push_back({weighted_distance(candidate, now), &candidate});
  }
  std::make_heap(heap.begin(), heap.end(), worse);
  return heap;
}

Ranked pop(std::vector<Ranked>& heap) {
  std::pop_heap(heap.begin(), heap.end(), worse);
  const Ranked top = heap.back();
  heap.pop_back();
  return top;
}

// Smaller candidates that give `missing` bytes instead of `large`; empty if there are none such.
std::vector<Ranked> smaller_instead(std::vector<Ranked>& heap, const Ranked& large, Bytes missing) {
  const Bytes most{large.candidate->bytes.count / 2};
  const std::uint64_t nearest = large.tenths == kInfinite ? kInfinite : large.tenths / 2;
  std::vector<Ranked> chosen;
  if (most < missing) return chosen;
  Bytes total{};
  while (!heap.empty() && heap.front().tenths >= nearest) {
    const Ranked next = pop(heap);
    if (next.candidate->bytes > most) continue;
    if (next.candidate->bytes >= missing) return {next};
    if (next.candidate->bytes > most - total) continue;
    chosen.push_back(next);
    total += next.candidate->bytes;
    if (total >= missing) return chosen;
  }
  return {};
}

// Leaves out, nearest use first, what the others make unnecessary.
void prune(std::vector<Ranked>& chosen, Bytes needed) {
  Bytes total{};
  for (const Ranked& r : chosen) total += r.candidate->bytes;
  for (std::size_t i = chosen.size(); i-- > 0;) {
    const Bytes bytes = chosen[i].candidate->bytes;
    if (total < needed || total - bytes < needed) continue;
    total -= bytes;
    chosen[i].candidate = nullptr;
  }
  std::erase_if(chosen, [](const Ranked& r) { return r.candidate == nullptr; });
}

std::uint64_t after_latest_use(std::span<const Candidate> candidates) {
  std::uint64_t latest = 0;
  for (const Candidate& candidate : candidates) latest = std::max(latest, candidate.last_use);
  return latest == kInfinite ? latest : latest + 1;
}

}  // namespace

std::vector<StorageId> choose_victims(std::span<const Candidate> candidates, Bytes needed,
                                      std::optional<std::uint64_t> now) {
  if (needed == Bytes{0}) return {};
  std::vector<Ranked> heap =
      ranked_heap(candidates, now.has_value() ? *now : after_latest_use(candidates));
  std::vector<Ranked> chosen;
  Bytes total{};
  while (total < needed && !heap.empty()) {
    const Ranked next = pop(heap);
    const Bytes missing = needed - total;
    total += next.candidate->bytes;
    if (next.candidate->bytes > missing) {
      const std::vector<Ranked> smaller = smaller_instead(heap, next, missing);
      if (!smaller.empty()) {
        chosen.insert(chosen.end(), smaller.begin(), smaller.end());
        break;
      }
    }
    chosen.push_back(next);
  }
  prune(chosen, needed);
  std::vector<StorageId> ids;
  ids.reserve(chosen.size());
  for (const Ranked& r : chosen) ids.push_back(r.candidate->id);
  return ids;
}

}  // namespace spillway::residency
