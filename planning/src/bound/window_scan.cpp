// SPDX-License-Identifier: Apache-2.0
#include "bound/window_scan.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace spillway::planning::bound {
namespace {

// Which part of a stalled nanosecond is worth a nanosecond of the link; the rest is worth one of
// computing again. Any division gives a bound; the best one depends on what is cheap to make again.
constexpr std::array<double, 4> kLinkShares{1.0, 0.7, 0.4, 0.15};

// Visits of touches that short traces may take, over all lengths: some hundredths of a second.
constexpr double kVisits = 5e6;

// Windows of long traces are four times as long as those before, others twice: their touches fit in
// no cache, so that every scan of all of them counts.
constexpr Row kManyTouches = 200'000;
Position growth_of_lengths(const CyclicView& view) {
  return view.model->table.touches() > kManyTouches ? 4 : 2;
}

struct Best {
  double excess = 0;
  Position end = 0;
  double share = 1;
  BoundPayment paid{};
};

// By link share: what copies in and ops run again pay.
struct Sums {
  std::array<double, kLinkShares.size()> in{}, again{};
};

// How much of some whole storages fits into the room beside what an op needs, at most: none that is
// larger than the room, and of the others no more than as many of the smallest.
class KeptBytes {
 public:
  explicit KeptBytes(double room) : room_(room) {}

  void may_keep(std::uint64_t bytes) {
    const auto size = static_cast<double>(bytes);
    if (bytes == 0 || size > room_) return;
    sum_ += size;
    least_ = std::min(least_, size);
    most_ = std::max(most_, size);
  }
  [[nodiscard]] double most() const {
    if (sum_ == 0) return 0;
    return std::min({room_, sum_, std::floor(room_ / least_) * most_});
  }

 private:
  double room_;
  double sum_ = 0;
  double least_ = 1e300;
  double most_ = 0;
};

class AfterScan {
 public:
  AfterScan(const CyclicView& view, const Boundary& boundary)
      : view_(view), table_(view.model->table), boundary_(boundary) {
    const StepModel& model = *view.model;
    rate_ = model.copy_ns(boundary.in, std::uint64_t{1} << 40) / std::exp2(40);
    copy_.resize(table_.storages());
    recomputation_.resize(table_.storages());
    for (Row s = 0; s < table_.storages(); ++s) {
      copy_[s] = model.least_copy_ns(boundary.in, table_.bytes(s));
      recomputation_[s] = std::min(model.recompute_share_ns(s), 1e300);
    }
  }

  /// ns a byte
  [[nodiscard]] double rate() const { return rate_; }

  // The best window from the end of op `p` to the start of one of the next `length` ops, of those
  // that are longer than half of it.
  Best scan(Position p, Position length) {
    Best best;
    const double room = static_cast<double>(boundary_.capacity) -
                        static_cast<double>(view_.working_set(static_cast<Row>(p)));
    if (room < 0) return best;
    Sums sum;
    KeptBytes kept(room);
    const double from = view_.time(p + 1);
    for (Position q = p + 1; q <= p + length; ++q) {
      const Row op = view_.op_at(q);
      if (!add(op, p, q - static_cast<Position>(op), sum, kept) || growth_ * (q - p) <= length)
        continue;
      const double time = view_.time(q) - from + rate_ * kept.most();
      for (std::size_t k = 0; k < kLinkShares.size(); ++k) {
        const double excess = sum.in[k] + sum.again[k] - kLinkShares[k] * time;
        if (excess <= best.excess) continue;
        best = {excess, q, kLinkShares[k], {.in = sum.in[k], .again = sum.again[k]}};
      }
    }
    return best;
  }

 private:
  bool add(Row op, Position p, Position shift, Sums& sum, KeptBytes& kept) const {
    bool any = false;
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Touch& touch = table_.touch(row);
      const Position previous = view_.previous[row];
      // Held at the instant, born since, or not yet there (an input of the next step).
      if (previous == kNeverAgain || previous + shift >= p) continue;
      if (previous == -1 && shift > 0) continue;
      const double copy = copy_[touch.storage];
      const Row id = previous < 0 && shift > 0 ? table_.predecessor(touch.storage) : touch.storage;
      const bool again = (previous >= 0 || shift > 0) && id != kNoRow &&
                         static_cast<Position>(view_.model->chain_until[id]) > p;
      for (std::size_t k = 0; k < kLinkShares.size(); ++k) {
        const double fetch = kLinkShares[k] * copy;
        const double run = again ? (1 - kLinkShares[k]) * recomputation_[id] : fetch;
        (run < fetch ? sum.again : sum.in)[k] += std::min(run, fetch);
      }
      kept.may_keep(table_.bytes(touch.storage));
      any = true;
    }
    return any;
  }

  const CyclicView& view_;
  const AccessTable& table_;
  const Boundary& boundary_;
  Position growth_ = growth_of_lengths(view_);
  double rate_ = 0;  // ns per byte
  std::vector<double> copy_, recomputation_;
};

class BeforeScan {
 public:
  BeforeScan(const CyclicView& view, const Boundary& boundary)
      : view_(view), table_(view.model->table), boundary_(boundary) {
    rate_ = view.model->copy_ns(boundary.out, std::uint64_t{1} << 40) / std::exp2(40);
    written_.resize(static_cast<std::size_t>(view.ops) + 1);
  }

  [[nodiscard]] double rate() const { return rate_; }

  // The best window from the end of one of the `length` ops before `p` to the start of `p`.
  Best scan(Position p, Position length) {
    Best best;
    const double room = static_cast<double>(boundary_.capacity) -
                        static_cast<double>(view_.working_set(static_cast<Row>(p)));
    if (room < 0) return best;
    std::fill_n(written_.begin(), length + 1, 0.0);
    double sum = 0;
    KeptBytes kept(room);
    const double until = view_.time(p);
    for (Position q = p - 1; q >= p - length; --q) {
      add(p, q, length, kept);
      const double out = written_[static_cast<std::size_t>(p - q)];
      sum += out;
      if (out == 0 || growth_ * (p - q) <= length) continue;
      const double excess = sum - rate_ * kept.most() - (until - view_.time(q + 1));
      if (excess > best.excess) best = {excess, q, 1, {.out = sum}};
    }
    return best;
  }

 private:
  // Puts what op `q` touches last before `p` to the op that wrote it.
  void add(Position p, Position q, Position length, KeptBytes& kept) {
    const Row op = view_.op_at(q);
    const Position shift = q - static_cast<Position>(op);
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Position next = view_.next[row];
      const Position write = view_.last_write[row];
      if (next == kNeverAgain || next + shift <= p || write == kLongAgo) continue;
      if (write == -1 && shift < 0) continue;
      const Position wrote = write + shift;
      if (p - wrote > length) continue;
      const Row id = table_.touch(row).storage;
      // A storage that can be recomputed later may simply be dropped.
      if (shift == 0 && static_cast<Position>(view_.model->chain_until[id]) > p) continue;
      kept.may_keep(table_.bytes(id));
      written_[static_cast<std::size_t>(p - wrote)] +=
          view_.model->least_copy_ns(boundary_.out, table_.bytes(id));
    }
  }

  const CyclicView& view_;
  const AccessTable& table_;
  const Boundary& boundary_;
  Position growth_ = growth_of_lengths(view_);
  double rate_ = 0;
  std::vector<double> written_;  // by distance from the instant: time of copies out
};

template <typename Scan, typename Append>
void scan_lengths(const CyclicView& view, Scan& scan, const Append& append) {
  const Position density = instants_per_half_length(view);
  const Position growth = growth_of_lengths(view);
  for (Position length = 1;; length = std::min(growth * length, view.ops)) {
    const Position stride = std::max<Position>(1, length / (2 * density));
    for (Position p = 0; p < view.ops; p += stride) {
      const Best best = scan.scan(p, length);
      if (best.excess > 0) append(p, best);
    }
    if (length >= view.ops) break;
  }
}

}  // namespace

Position instants_per_half_length(const CyclicView& view) {
  const auto lengths =
      static_cast<double>(std::bit_width(static_cast<std::uint64_t>(view.ops))) + 1;
  const double visits = 2.0 * lengths * (static_cast<double>(view.model->table.touches()) + 1);
  return static_cast<Position>(std::clamp(kVisits / visits, 1.0, 16.0));
}

void scan_windows_after(const CyclicView& view, const Boundary& boundary,
                        std::vector<BoundWindow>& windows) {
  AfterScan scan(view, boundary);
  scan_lengths(view, scan, [&](Position p, const Best& best) {
    windows.push_back({static_cast<Row>(p), static_cast<Row>(p), static_cast<Row>(best.end),
                       best.excess, WindowSide::kAfter, boundary.to_disk, best.paid, best.share,
                       best.share * scan.rate()});
  });
}

void scan_windows_before(const CyclicView& view, const Boundary& boundary,
                         std::vector<BoundWindow>& windows) {
  BeforeScan scan(view, boundary);
  scan_lengths(view, scan, [&](Position p, const Best& best) {
    const Position turn = best.end < 0 ? view.ops : 0;  // windows begin within the step
    windows.push_back({static_cast<Row>(best.end + turn), static_cast<Row>(p + turn),
                       static_cast<Row>(p + turn), best.excess, WindowSide::kBefore,
                       boundary.to_disk, best.paid, 1, scan.rate()});
  });
}

}  // namespace spillway::planning::bound
