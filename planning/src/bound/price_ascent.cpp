// SPDX-License-Identifier: Apache-2.0
#include "bound/price_ascent.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "bound/aimed_ascent.hpp"
#include "bound/priced_gaps.hpp"

namespace spillway::planning::bound {
namespace {

// The two ways of ascending: many instants with a pace of its own for every price, and few with one
// for all. Each does better than the other on some steps.
constexpr std::size_t kManyInstants = 96;
constexpr std::size_t kFewInstants = 48;
// Steps through gaps and instants, over all turns of a way: some tenths of a second, and some
// hundredths.
constexpr double kManyWork = 4.8e7, kFewWork = 1.2e7;
constexpr double kFewestTurns = 40;
constexpr double kMostTurns = 1500;

// D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015; here the pace falls
// from turn to turn, as subgradients do not become small.
constexpr double kFirstMemory = 0.9, kSecondMemory = 0.98;
constexpr double kFirstPace = 0.1, kLastPace = 0.001;

constexpr int kPatience = 12;
constexpr double kFirstAim = 0.5;  // as a share of the step

class Ascent {
 public:
  Ascent(PricedGaps& gaps, double unit, const Prices& start)
      : gaps_(gaps),
        count_(gaps.instants()),
        unit_(unit),
        now_(start),
        best_prices_(start),
        demand_(count_),
        direction_(3 * count_),
        gradient_(3 * count_),
        square_(3 * count_) {}

  /// A pace for every price.
  PricedStep adapt(int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      const double value = evaluate();
      if (value > best_.extra_ns) keep(value);
      adapted_move(kFirstPace * std::pow(kLastPace / kFirstPace, static_cast<double>(turn) / turns),
                   turn + 1);
    }
    return best_;
  }

  /// One pace for all.
  PricedStep aim(int turns, double period) {
    ascend_aiming(*this, turns, {.patience = kPatience, .first = kFirstAim * period});
    return best_;
  }

  double evaluate() {
    gaps_.demand(now_, demand_);
    double value = demand_.paid;
    for (std::size_t k = 0; k < count_; ++k) {
      value += now_.room[k] * gaps_.excess(k) - (now_.in[k] + now_.out[k]) * gaps_.duration(k);
      gradient_[k] = (gaps_.excess(k) - demand_.away[k]) * unit_;
      const double recomputations = gaps_.may_wait(k) ? demand_.recompute[k] : 0;
      gradient_[count_ + k] = demand_.in[k] - gaps_.duration(k) - recomputations;
      gradient_[2 * count_ + k] = demand_.out[k] - gaps_.duration(k) - recomputations;
    }
    return value;
  }

  [[nodiscard]] double best() const { return best_.extra_ns; }

  void keep(double value) {
    best_prices_ = now_;
    best_ = {.extra_ns = value};
    for (std::size_t k = 0; k < count_; ++k) {
      best_.paid.in += now_.in[k] * demand_.in[k];
      best_.paid.out += now_.out[k] * demand_.out[k];
      best_.paid.again += now_.recompute[k] * demand_.recompute[k];
      if (now_.room[k] > now_.room[dearest_]) dearest_ = k;
    }
    best_.instant = gaps_.op(dearest_);
    best_.links = {now_.in, now_.out};
  }

  void start_over() {
    now_ = best_prices_;
    std::fill(direction_.begin(), direction_.end(), 0.0);
  }

  bool move(double missing) {
    const double squared =
        deflect(direction_, gradient_, [this](std::size_t i) { return price(i); });
    if (squared <= 0) return false;
    go(direction_, std::max(missing, 0.0) / squared);
    return true;
  }

 private:
  void adapted_move(double pace, int turn) {
    const double first = 1 - std::pow(kFirstMemory, turn);
    const double second = 1 - std::pow(kSecondMemory, turn);
    std::vector<double>& step = gradient_;
    for (std::size_t i = 0; i < gradient_.size(); ++i) {
      const double g = price(i) <= 0 && gradient_[i] < 0 ? 0 : gradient_[i];
      direction_[i] = kFirstMemory * direction_[i] + (1 - kFirstMemory) * g;
      square_[i] = kSecondMemory * square_[i] + (1 - kSecondMemory) * g * g;
      const double size = std::sqrt(square_[i] / second);
      step[i] = size > 0 ? pace * direction_[i] / first / size : 0;
    }
    go(step, 1);
  }

  void go(const std::vector<double>& direction, double length) {
    for (std::size_t k = 0; k < count_; ++k) {
      now_.room[k] = std::max(0.0, now_.room[k] + length * direction[k] * unit_);
      set_links(k, now_.in[k] + length * direction[count_ + k],
                now_.out[k] + length * direction[2 * count_ + k]);
    }
  }

  [[nodiscard]] double price(std::size_t i) const {
    if (i < count_) return now_.room[i];
    return i < 2 * count_ ? now_.in[i - count_] : now_.out[i - 2 * count_];
  }

  void set_links(std::size_t k, double in, double out) {
    std::tie(now_.in[k], now_.out[k]) = nearest_allowed(in, out, gaps_.may_wait(k));
    now_.recompute[k] = gaps_.may_wait(k) ? std::max(0.0, 1 - now_.in[k] - now_.out[k]) : 0;
  }

  PricedGaps& gaps_;
  std::size_t count_;
  double unit_;  // ns a byte: what a price of room is counted in
  Prices now_, best_prices_;
  Demand demand_;
  std::vector<double> direction_, gradient_, square_;
  PricedStep best_;
  std::size_t dearest_ = 0;
};

}  // namespace

std::pair<double, double> nearest_allowed(double in, double out, bool waits) {
  in = std::max(in, 0.0);
  out = std::max(out, 0.0);
  if (!waits || in + out <= 1) return {in, out};
  const double over = (in + out - 1) / 2;
  if (in < over) return {0, 1};
  if (out < over) return {1, 0};
  return {in - over, out - over};
}

PricedStep ascend_prices(const CyclicView& view, const Boundary& boundary,
                         const std::vector<BoundWindow>& windows) {
  // Too long for the fewest turns; to find out by collecting the gaps takes as long as the windows.
  constexpr Row kMostTouches = 200'000;
  if (view.model->table.touches() > kMostTouches) return {};
  const double unit = view.model->copy_ns(boundary.in, std::uint64_t{1} << 40) / std::exp2(40);
  const auto turns_of = [](const PricedGaps& gaps, double work) {
    const double turns = std::min(kMostTurns, work / (gaps.work() + 1));
    return turns < kFewestTurns || gaps.gaps() == 0 ? 0 : static_cast<int>(turns);
  };
  PricedGaps many(view, boundary, windows, kManyInstants);
  const PricedStep adapted =
      Ascent(many, unit, many.prices_of(windows)).adapt(turns_of(many, kManyWork));
  PricedGaps few(view, boundary, {}, kFewInstants);
  const PricedStep aimed =
      Ascent(few, unit, few.prices_of({})).aim(turns_of(few, kFewWork), view.period);
  PricedStep best = adapted.extra_ns > aimed.extra_ns ? adapted : aimed;
  const auto all = static_cast<std::size_t>(2 * view.ops);
  if (best.links.in.size() != all) best.links = adapted.links;
  if (best.links.in.size() != all) best.links = {};
  best.to_disk = boundary.to_disk;
  return best;
}

}  // namespace spillway::planning::bound
