// SPDX-License-Identifier: Apache-2.0
#include "spillway/residency/victims.hpp"

#include <algorithm>
#include <tuple>

namespace spillway::residency {
namespace {

// Longer distances than this are all alike.
constexpr std::uint64_t kLongestFinite = std::uint64_t{1} << 59;
constexpr std::uint64_t kInfinite = kNeverUsed;

// Smaller ones that are looked at in place of a large one: a program of thousands of storages of
// which none serves must not have all of them looked at.
constexpr std::size_t kMostSmaller = 64;

struct Ranked {
  std::uint64_t tenths;  // weighted distance to the next use
  const Candidate* candidate;
};

std::uint64_t distance_of(const Candidate& candidate, std::uint64_t now) {
  if (candidate.next_use == kNeverUsed) return kInfinite;
  const bool known = candidate.next_use != kUnknownUse && candidate.next_use >= now;
  return weighted_distance(
      known ? candidate.next_use - now : now - std::min(now, candidate.last_use), candidate.clean);
}

// Order of a max-heap: true if `a` is the worse victim. Ties: a clean one costs nothing, a large
// one saves further victims, and the id makes the choice repeatable.
bool worse(const Ranked& a, const Ranked& b) {
  const auto key = [](const Ranked& r) {
    return std::tuple(r.tenths, r.candidate->clean, r.candidate->bytes, ~to_value(r.candidate->id));
  };
  return key(a) < key(b);
}

// The whole of `candidates`, in a heap.
class HeapOrder final : public LeavingOrder {
 public:
  HeapOrder(std::span<const Candidate> candidates, std::uint64_t now) {
    heap_.reserve(candidates.size());
    for (const Candidate& candidate : candidates) {
      heap_.push_back({distance_of(candidate, now), &candidate});
    }
    std::make_heap(heap_.begin(), heap_.end(), worse);
  }
  const Candidate* next() override {
    if (heap_.empty()) return nullptr;
    std::pop_heap(heap_.begin(), heap_.end(), worse);
    const Ranked top = heap_.back();
    heap_.pop_back();
    return top.candidate;
  }

 private:
  std::vector<Ranked> heap_;
};

// Shows the next one before it is taken.
class Queue {
 public:
  Queue(LeavingOrder& order, std::uint64_t now) : order_(order), now_(now) { advance(); }

  [[nodiscard]] bool empty() const { return front_.candidate == nullptr; }
  [[nodiscard]] const Ranked& front() const { return front_; }
  Ranked pop() {
    const Ranked front = front_;
    advance();
    return front;
  }

 private:
  void advance() {
    do {
      front_.candidate = order_.next();
    } while (front_.candidate != nullptr && front_.candidate->bytes == Bytes{0});
    if (front_.candidate != nullptr) front_.tenths = distance_of(*front_.candidate, now_);
  }

  LeavingOrder& order_;
  std::uint64_t now_;
  Ranked front_{};
};

// Smaller candidates that give `missing` bytes instead of `large`; empty if there are none such.
std::vector<Ranked> smaller_instead(Queue& queue, const Ranked& large, Bytes missing) {
  const Bytes most{large.candidate->bytes.count / 2};
  const std::uint64_t nearest = large.tenths == kInfinite ? kInfinite : large.tenths / 2;
  std::vector<Ranked> chosen;
  if (most < missing) return chosen;
  Bytes total{};
  for (std::size_t looked = 0; looked < kMostSmaller; ++looked) {
    if (queue.empty() || queue.front().tenths < nearest) break;
    const Ranked next = queue.pop();
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

std::uint64_t weighted_distance(std::uint64_t distance, bool clean) {
  if (distance == kNeverUsed) return kInfinite;
  return std::min(distance, kLongestFinite) * (clean ? 11 : 10);
}

bool leaves_before(const Candidate& a, const Candidate& b, std::uint64_t now) {
  return worse({distance_of(b, now), &b}, {distance_of(a, now), &a});
}

std::vector<StorageId> choose_victims(LeavingOrder& order, Bytes needed, std::uint64_t now) {
  if (needed == Bytes{0}) return {};
  Queue queue(order, now);
  std::vector<Ranked> chosen;
  Bytes total{};
  while (total < needed && !queue.empty()) {
    const Ranked next = queue.pop();
    const Bytes missing = needed - total;
    total += next.candidate->bytes;
    if (next.candidate->bytes > missing) {
      const std::vector<Ranked> smaller = smaller_instead(queue, next, missing);
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

std::vector<StorageId> choose_victims(std::span<const Candidate> candidates, Bytes needed,
                                      std::optional<std::uint64_t> now) {
  const std::uint64_t at = now.has_value() ? *now : after_latest_use(candidates);
  HeapOrder order(candidates, at);
  return choose_victims(order, needed, at);
}

}  // namespace spillway::residency
