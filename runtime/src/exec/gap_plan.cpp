// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/gap_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace spillway::runtime {

namespace {

// Passes between two choices while they come out alike.
constexpr std::uint64_t kMostPassesBetween = 64;
// A budget follows what else the process holds on a card, and the demand what other threads hold. A
// choice stays until it is due if both are within one part in so many.
constexpr std::uint64_t kParts = 64;

/// Goes once through the step, from the op on that needs the least: time 0. (An op that allocates
/// nothing has no demand of its own, and is no such op.) A gap that runs over
/// the end of the pass is open when it begins, too, and chosen or not once for both parts.
class Sweep {
 public:
  Sweep(std::span<const Gap> gaps, const DemandProfile& demand, Bytes budget)
      : gaps_(gaps),
        demand_(demand),
        budget_(budget.count),
        ops_(demand.ops()),
        begins_(gaps.size()),
        order_(gaps.size()),
        chosen_(gaps.size()),
        gone_(ops_),
        back_(ops_) {
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (std::uint64_t op = 0; op < ops_; ++op) {
      const std::uint64_t needed = demand_.most(op, 1);
      if (needed == 0 || needed >= least) continue;
      least = needed;
      first_ = op;
    }
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      const std::uint64_t begin = gaps_[i].begin;
      begins_[i] = begin < first_ ? begin + ops_ - first_ : begin - first_;
    }
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::ranges::stable_sort(order_, {}, [this](std::size_t i) { return begins_[i]; });
  }

  std::vector<bool> run() {
    for (std::size_t i = 0; i < gaps_.size(); ++i) {
      if (end(i) > ops_) open(i, end(i) - ops_);
    }
    for (std::uint64_t now = 0; now < ops_; ++now) {
      away_ += gone_[now];
      away_ -= back_[now];
      const std::uint64_t needed = demand_.most(first_ + now, 1);
      while (needed > budget_ + away_ && !open_.empty() && open_.top().end > now) choose(now);
      for (; next_ < order_.size() && begins_[order_[next_]] == now; ++next_) {
        open(order_[next_], end(order_[next_]));
      }
    }
    return std::move(chosen_);
  }

 private:
  struct Open {
    bool copied;
    std::uint64_t end;
    std::size_t gap;
    bool operator<(const Open& other) const {
      return std::tuple(!copied, end) < std::tuple(!other.copied, other.end);
    }
  };

  [[nodiscard]] std::uint64_t end(std::size_t gap) const { return begins_[gap] + gaps_[gap].ops; }

  void open(std::size_t gap, std::uint64_t end) {
    if (gaps_[gap].bytes.count == 0 || chosen_[gap]) return;
    open_.push({.copied = gaps_[gap].again == 0, .end = end, .gap = gap});
  }
  // From now to its end; and, where that is the end of one that began before the pass, from its
  // begin to the end of the pass.
  void choose(std::uint64_t now) {
    const Open furthest = open_.top();
    open_.pop();
    if (chosen_[furthest.gap]) return;  // as the one that began before
    chosen_[furthest.gap] = true;
    const std::uint64_t bytes = gaps_[furthest.gap].bytes.count;
    away_ += bytes;
    if (furthest.end < ops_) back_[furthest.end] += bytes;
    const std::uint64_t begins_again = begins_[furthest.gap] + 1;
    if (end(furthest.gap) > ops_ && begins_again > now && begins_again < ops_) {
      gone_[begins_again] += bytes;
    }
  }

  std::span<const Gap> gaps_;
  const DemandProfile& demand_;
  const std::uint64_t budget_;
  const std::uint64_t ops_;
  std::uint64_t first_ = 0;
  std::vector<std::uint64_t> begins_;  // of the gaps
  std::vector<std::size_t> order_;     // of the gaps, by their begin
  std::size_t next_ = 0;               // in it
  std::priority_queue<Open> open_;     // some have ended
  std::vector<bool> chosen_;
  std::vector<std::uint64_t> gone_;  // bytes that are away from that time on
  std::vector<std::uint64_t> back_;  // bytes that are back then
  std::uint64_t away_ = 0;
};

}  // namespace

std::vector<bool> choose_gaps(std::span<const Gap> gaps, const DemandProfile& demand,
                              Bytes budget) {
  if (demand.most() <= budget.count) return std::vector<bool>(gaps.size());
  return Sweep(gaps, demand, budget).run();
}

namespace {

bool differ(Bytes one, Bytes other) {
  const std::uint64_t between = std::max(one, other).count - std::min(one, other).count;
  return between > other.count / kParts;
}

}  // namespace

bool GapPlan::is_due(std::uint64_t pass, Bytes most, Bytes budget) const {
  return pass >= due_ || (pass != chosen_in_ && (differ(most, most_) || differ(budget, budget_)));
}

void GapPlan::forget() {
  away_before_.clear();
  due_ = 0;
}

void GapPlan::choose(std::span<const Gap> gaps, std::span<const std::uint32_t> ends,
                     std::size_t touches, const DemandProfile& demand, std::uint64_t pass,
                     Bytes budget) {
  const std::vector<bool> chosen = choose_gaps(gaps, demand, budget);
  std::vector<bool> away(touches);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (chosen[i]) away[ends[i]] = true;
  }
  const bool same = away == away_before_;
  passes_between_ = same ? std::min(2 * passes_between_, kMostPassesBetween) : 1;
  chosen_in_ = pass;
  due_ = pass + passes_between_;
  most_ = Bytes{demand.most()};
  budget_ = budget;
  away_before_ = std::move(away);
}

}  // namespace spillway::runtime
