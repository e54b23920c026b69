// SPDX-License-Identifier: Apache-2.0
// Windows on both sides of an instant: what is away must have gone out before it and come in after,
// or be made again. The prices of bytes are found by turns: given the window, the cheapest bytes
// that must be away (a fractional knapsack); given the price of the last of them, the best window.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "bound/window_scan.hpp"

namespace spillway::planning::bound {
namespace {

constexpr std::array<double, 6> kLinkShares{1.0, 0.8, 0.6, 0.4, 0.2, 0.05};
constexpr int kTurns = 3;
constexpr Row kInstants = 24;

// Something alive at the instant that the op there does not touch and that is read again.
struct Away {
  double bytes = 0;
  double out = 0, in = 0, recompute = kNever;  // ns
  Position written = kLongAgo;                 // from the end of this op it could go out
  Position used = kNeverAgain;                 // by the start of this op it must be back
};

// Its price for a byte.
struct Offer {
  double per_byte = 0;
  double bytes = 0;  // here too: the halving below would find its item in no cache
  const Away* item = nullptr;
};

// One instant after the other in the same memory: on long traces every one has tens of megabytes of
// what may be away, and pages that are new each time cost as much as looking at it.
class InstantScan {
 public:
  explicit InstantScan(const CyclicView& view) : view_(view) {}

  /// For whoever collects what may be away at the next instant.
  std::vector<Away>& emptied() {
    by_used_.clear();
    return by_used_;
  }

  void set(Position p, double must_leave) {
    p_ = p;
    must_leave_ = must_leave;
    room_ = -must_leave;
    for (const Away& item : by_used_) room_ += item.bytes;
    by_written_ = by_used_;
    // Each order has rows of its own: on long traces they fit in no cache, and are read in turn.
    std::sort(by_written_.begin(), by_written_.end(),
              [](const Away& a, const Away& b) { return a.written > b.written; });
    std::sort(by_used_.begin(), by_used_.end(),
              [](const Away& a, const Away& b) { return a.used < b.used; });
    offers_.reserve(by_used_.size());
  }

  BoundWindow best(bool to_disk) {
    BoundWindow window{
        .instant = static_cast<Row>(p_), .side = WindowSide::kAround, .to_disk = to_disk};
    for (const double share : kLinkShares) {
      first_ = p_ - view_.ops / 2;
      last_ = p_ + view_.ops / 2;
      for (int turn = 0; turn < kTurns; ++turn) {
        const double excess = evaluate(share);
        if (excess > window.extra_ns) {
          const Position wrap = first_ < 0 ? view_.ops : 0;
          window.extra_ns = excess;
          window.link_share = share;
          window.paid = payment(share);
          window.room_price = per_byte_;
          window.first = static_cast<Row>(first_ + wrap);
          window.instant = static_cast<Row>(p_ + wrap);
          window.last = static_cast<Row>(last_ + wrap);
        }
        const std::pair before{first_, last_};
        move_first(share);
        move_last(share);
        // Neither a window that does not change nor one that has shrunk to nothing gains any more.
        if (before == std::pair{first_, last_} || last_ - first_ <= 1) break;
      }
    }
    return window;
  }

 private:
  [[nodiscard]] double price(const Away& item, double share) const {
    const double swap = share * item.in + (item.written >= first_ ? item.out : 0);
    return item.recompute == kNever ? swap : std::min(swap, (1 - share) * item.recompute);
  }

  // Leaving costs, where the storage does not come back within the window: nothing if it can be
  // made again, else its copy out.
  [[nodiscard]] double full_price(const Away& item, double share) const {
    if (item.used <= last_) return price(item, share);
    return item.recompute == kNever && item.written >= first_ ? item.out : 0;
  }

  // The excess of the window at hand: sets the price of the dearest byte that must leave.
  double evaluate(double share) {
    double left = must_leave_;
    double paid = 0;
    per_byte_ = 0;
    offers_.clear();
    whole_ = 0;
    part_ = 0;
    for (const Away& item : by_used_) {
      const double price = full_price(item, share);
      if (must_go(item)) {
        paid += price;
        left -= item.bytes;
      } else if (item.bytes > 0) {
        offers_.push_back({price / item.bytes, item.bytes, &item});
      }
    }
    if (left > 0) paid += cheapest(left);
    const double before = view_.time(p_) - view_.time(first_ + 1);
    const double after = view_.time(last_) - view_.time(p_);
    return paid - std::max(before, 0.0) - share * after;
  }

  // The cost of the cheapest `left` bytes on offer, the last storage taken in part: halves of what
  // is left to look at are taken whole or left out, which needs no order among them. Those taken
  // end up first.
  double cheapest(double left) {
    double paid = 0;
    const auto take = [&](const Offer& offer) {
      const double taken = std::min(left, offer.bytes);
      per_byte_ = offer.per_byte;
      part_ = taken / offer.bytes;
      paid += taken * offer.per_byte;
      left -= taken;
    };
    auto low = offers_.begin();
    auto high = offers_.end();
    while (high - low > 1) {
      const auto middle = low + (high - low) / 2;
      std::nth_element(low, middle, high,
                       [](const Offer& a, const Offer& b) { return a.per_byte < b.per_byte; });
      double cheaper = 0;
      for (auto offer = low; offer != middle; ++offer) cheaper += offer->bytes;
      if (cheaper >= left) {
        high = middle;
      } else {
        std::for_each(low, middle, take);
        low = middle;
      }
    }
    whole_ = static_cast<std::size_t>(low - offers_.begin());
    if (low != high) take(*low);
    return paid;
  }

  // By what the window just evaluated is paid.
  [[nodiscard]] BoundPayment payment(double share) const {
    BoundPayment paid;
    for (const Away& item : by_used_) {
      if (must_go(item)) pay(item, share, 1, paid);
    }
    for (std::size_t i = 0; i < whole_; ++i) pay(*offers_[i].item, share, 1, paid);
    if (part_ > 0) pay(*offers_[whole_].item, share, part_, paid);
    return paid;
  }

  void pay(const Away& item, double share, double part, BoundPayment& paid) const {
    const double out = item.written >= first_ ? item.out : 0;
    const bool back = item.used <= last_;
    const double swap = (back ? share * item.in : 0) + out;
    if (item.recompute != kNever && (!back || (1 - share) * item.recompute < swap)) {
      paid.again += part * (back ? (1 - share) * item.recompute : 0);
    } else {
      paid.in += part * (swap - out);
      paid.out += part * out;
    }
  }

  // A storage larger than the room beside the op cannot stay, whatever else leaves.
  [[nodiscard]] bool must_go(const Away& item) const { return item.bytes > room_; }

  [[nodiscard]] double capped(const Away& item, double price) const {
    if (must_go(item)) return price;
    return std::min(price, per_byte_ * item.bytes);
  }

  void move_first(double share) {
    double gain = 0;
    double most = 0;
    Position best = p_ - 1;
    for (const Away& item : by_written_) {
      if (item.written < p_ - view_.ops / 2) break;
      first_ = kNeverAgain;
      const double without = capped(item, full_price(item, share));
      first_ = item.written;
      gain += capped(item, full_price(item, share)) - without;
      const double net = gain - (view_.time(p_) - view_.time(item.written + 1));
      if (net > most) {
        most = net;
        best = item.written;
      }
    }
    first_ = best;
  }

  void move_last(double share) {
    double gain = 0;
    double most = 0;
    Position best = p_;
    for (const Away& item : by_used_) {
      if (item.used > p_ + view_.ops / 2) break;
      last_ = item.used;
      const double within = capped(item, full_price(item, share));
      last_ = p_;
      gain += within - capped(item, full_price(item, share));
      const double net = gain - share * (view_.time(item.used) - view_.time(p_));
      if (net > most) {
        most = net;
        best = item.used;
      }
    }
    last_ = best;
  }

  const CyclicView& view_;
  Position p_ = 0;
  double must_leave_ = 0;
  double room_ = 0;  // beside what the op needs
  std::vector<Away> by_used_, by_written_;
  std::vector<Offer> offers_;
  Position first_ = 0, last_ = 0;
  double per_byte_ = 0;
  std::size_t whole_ = 0;  // so many offers are taken whole
  double part_ = 0;        // and this share of the one after them
};

// The instants with most bytes beyond the capacity, one of each stretch of the step.
std::vector<Row> pick_instants(const CyclicView& view, std::uint64_t capacity) {
  const AccessTable& table = view.model->table;
  std::vector<Row> picked;
  const Row ops = table.ops();
  const Row stretches = std::min(kInstants, ops);
  for (Row k = 0; k < stretches; ++k) {
    const auto from = static_cast<Row>(std::uint64_t{ops} * k / stretches);
    const auto to = static_cast<Row>(std::uint64_t{ops} * (k + 1) / stretches);
    Row most = from;
    for (Row op = from; op < to; ++op) {
      if (view.alive(op) > view.alive(most)) most = op;
    }
    if (view.alive(most) > capacity) picked.push_back(most);
  }
  return picked;
}

// The storages alive at the start of op `p` that may be away: `rows[s]` is the last touch of
// storage `s` before it in this step.
void set_instant(InstantScan& scan, const CyclicView& view, const Boundary& boundary, Row p,
                 const std::vector<Row>& rows) {
  const StepModel& model = *view.model;
  const AccessTable& table = model.table;
  std::vector<Away>& away = scan.emptied();
  double alive = static_cast<double>(model.least_workspace[p]);
  for (Row s = 0; s < table.storages(); ++s) {
    const Row born = table.creator(s);
    const bool here =
        (born == kNoRow || born <= p) && (table.freed_by(s) == kNoRow || table.freed_by(s) >= p);
    if (!here) continue;
    alive += static_cast<double>(table.bytes(s));
    Row row = rows[s];
    const Row next = row == kNoRow ? table.first_touch(s) : table.next_touch(row);
    if (next != kNoRow && table.op_of(next) == p) continue;  // the op needs it
    Position shift = 0;
    if (row == kNoRow && table.predecessor(s) != kNoRow) {
      row = table.last_touch(table.predecessor(s));
      shift = -view.ops;
    }
    Away item;
    item.bytes = static_cast<double>(table.bytes(s));
    if (row != kNoRow) {
      item.used = view.next[row] == kNeverAgain ? kNeverAgain : view.next[row] + shift;
      item.written = view.last_write[row] == kLongAgo ? kLongAgo : view.last_write[row] + shift;
    } else if (table.first_touch(s) != kNoRow) {
      item.used = table.op_of(table.first_touch(s));
      item.written = -1;
    }
    if (item.used == kNeverAgain) {
      item.written = kLongAgo;
    } else {
      item.out = model.least_copy_ns(boundary.out, table.bytes(s));
      item.in = model.least_copy_ns(boundary.in, table.bytes(s));
      if (shift == 0 && model.chain_until[s] > p) item.recompute = model.recompute_share_ns(s);
    }
    away.push_back(item);
  }
  scan.set(p, alive - static_cast<double>(boundary.capacity));
}

}  // namespace

void scan_windows_around(const CyclicView& view, const Boundary& boundary,
                         std::vector<BoundWindow>& windows) {
  const AccessTable& table = view.model->table;
  std::vector<Row> rows(table.storages(), kNoRow);
  InstantScan scan(view);
  Row done = 0;
  for (const Row p : pick_instants(view, boundary.capacity)) {
    for (; done < table.first_touch_of_op(p); ++done) rows[table.touch(done).storage] = done;
    set_instant(scan, view, boundary, p, rows);
    const BoundWindow window = scan.best(boundary.to_disk);
    if (window.extra_ns > 0) windows.push_back(window);
  }
}

}  // namespace spillway::planning::bound
