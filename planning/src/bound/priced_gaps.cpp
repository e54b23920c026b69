// SPDX-License-Identifier: Apache-2.0
#include "bound/priced_gaps.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace spillway::planning::bound {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr std::uint32_t kNoEpoch = std::numeric_limits<std::uint32_t>::max();

// Gaps of one epoch share the copy out: the storage is not written between them.
std::vector<std::uint32_t> epochs_of(const CyclicView& view, std::uint32_t& count) {
  const AccessTable& table = view.model->table;
  std::vector<std::uint32_t> epoch(table.touches(), kNoEpoch);
  std::vector<std::uint32_t> tail(table.storages(), kNoEpoch);
  for (Row s = 0; s < table.storages(); ++s) {
    std::uint32_t now = kNoEpoch;
    if (table.creator(s) == kNoRow && table.predecessor(s) == kNoRow) now = count++;
    for (Row row = table.first_touch(s); row != kNoRow; row = table.next_touch(row)) {
      if (table.touch(row).writes) now = count++;
      epoch[row] = now;
    }
    tail[s] = now;
  }
  for (Row s = 0; s < table.storages(); ++s) {
    for (Row row = table.first_touch(s); row != kNoRow; row = table.next_touch(row)) {
      if (epoch[row] != kNoEpoch) break;
      const Row older = table.predecessor(s);
      if (older != kNoRow) epoch[row] = tail[older];
      if (epoch[row] == kNoEpoch) epoch[row] = count++;  // no step writes it: it has a copy
    }
  }
  return epoch;
}

}  // namespace

PricedGaps::PricedGaps(const CyclicView& view, const Boundary& boundary,
                       const std::vector<BoundWindow>& windows, std::size_t most_instants)
    : view_(view) {
  std::vector<Moment> moments;
  for (const BoundWindow& window : windows) {
    moments.emplace_back(view.op_at(window.first), true);
    moments.emplace_back(view.op_at(window.instant), false);
    moments.emplace_back(view.op_at(window.instant), true);
    moments.emplace_back(view.op_at(window.last), false);
  }
  place_instants(std::move(moments), most_instants, boundary.capacity);
  collect(boundary);
}

// Besides those given every op's beginning and end where that is not too many, else the beginning
// of the op of each stretch with most bytes alive.
void PricedGaps::place_instants(std::vector<Moment> moments, std::size_t most_instants,
                                std::uint64_t capacity) {
  const StepModel& model = *view_.model;
  const Row ops = model.ops();
  if (2 * static_cast<std::size_t>(ops) <= most_instants) {
    for (Row op = 0; op < ops; ++op) {
      moments.emplace_back(op, false);
      moments.emplace_back(op, true);
    }
  } else {
    // Stretches of equal shares of time and of touches.
    const double touches = model.table.touches();
    std::size_t done = 0;
    Row most = 0;
    for (Row op = 0; op < ops; ++op) {
      if (view_.alive(op) > view_.alive(most)) most = op;
      const double share = (view_.time(op + 1) / std::max(view_.period, 1.0) +
                            model.table.last_touch_of_op(op) / std::max(touches, 1.0)) /
                           2;
      const auto stretch = static_cast<std::size_t>(share * static_cast<double>(most_instants));
      if (stretch == done && op + 1 < ops) continue;
      moments.emplace_back(most, false);
      done = stretch;
      most = std::min(op + 1, ops - 1);
    }
  }
  std::sort(moments.begin(), moments.end());
  moments.erase(std::unique(moments.begin(), moments.end()), moments.end());
  for (const auto& [op, ends] : moments) {
    slots_.push_back(
        {.op = op,
         .ends = ends,
         .excess = static_cast<double>(view_.alive(op)) - static_cast<double>(capacity),
         .room = static_cast<double>(capacity) - static_cast<double>(view_.working_set(op)),
         .duration = 0,
         .may_wait = true});
  }
  const std::size_t count = slots_.size();
  for (std::size_t k = 0; k < count; ++k) {
    const bool last = k + 1 == count;
    const auto moment = [&](std::size_t i) {
      return view_.time(static_cast<Position>(slots_[i].op) + (slots_[i].ends ? 1 : 0));
    };
    slots_[k].duration = (last ? view_.period + moment(0) : moment(k + 1)) - moment(k);
    slots_[k].may_wait = last || slots_[k].op != slots_[k + 1].op;
  }
}

Prices PricedGaps::prices_of(const std::vector<BoundWindow>& windows) const {
  Prices prices(slots_.size());
  for (std::size_t k = 0; k < slots_.size(); ++k) prices.recompute[k] = may_wait(k) ? 1 : 0;
  for (const BoundWindow& window : windows) {
    const bool after = window.side == WindowSide::kAfter;
    const Index at = last_at_or_before(window.instant, after);
    prices.room[wrapped(at)] = window.room_price;
    if (!after) {
      for (Index i = last_at_or_before(window.first, true); i < at; ++i) {
        prices.out[wrapped(i)] = 1;
        prices.recompute[wrapped(i)] = 0;
      }
    }
    for (Index i = at; i < last_at_or_before(window.last, false); ++i) {
      prices.in[wrapped(i)] = window.link_share;
      prices.recompute[wrapped(i)] = may_wait(wrapped(i)) ? 1 - window.link_share : 0;
    }
  }
  return prices;
}

std::size_t PricedGaps::wrapped(Index index) const {
  const auto count = static_cast<Index>(slots_.size());
  return static_cast<std::size_t>(((index % count) + count) % count);
}

// The last instant that is not after the beginning, or the end, of the op at a position.
PricedGaps::Index PricedGaps::last_at_or_before(Position position, bool end) const {
  const Row op = view_.op_at(position);
  const Position step = (position - static_cast<Position>(op)) / view_.ops;
  const auto after = std::upper_bound(slots_.begin(), slots_.end(), std::pair{op, end},
                                      [](const auto& key, const Slot& slot) {
                                        return key < std::pair{slot.op, slot.ends};
                                      });
  return (after - slots_.begin()) - 1 + step * static_cast<Index>(slots_.size());
}

void PricedGaps::collect(const Boundary& boundary) {
  const StepModel& model = *view_.model;
  const AccessTable& table = model.table;
  std::uint32_t epochs = 0;
  const std::vector<std::uint32_t> epoch = epochs_of(view_, epochs);
  std::vector<double> unused(slots_.size());
  const auto fill = [&](Row s) {
    Gap gap;
    gap.bytes = static_cast<double>(table.bytes(s));
    // No copy is shorter than its time to the nanosecond.
    gap.in = std::max(0.0, model.copy_ns(boundary.in, table.bytes(s)) - 0.5);
    gap.out = std::max(0.0, model.copy_ns(boundary.out, table.bytes(s)) - 0.5);
    gap.recompute = kInfinite;
    return gap;
  };
  const auto never_used = [&](Row s, Position from, Position to) {
    for (Index i = last_at_or_before(from, true) + 1; i <= last_at_or_before(to, true); ++i) {
      unused[wrapped(i)] += static_cast<double>(table.bytes(s));
    }
  };
  for (Row s = 0; s < table.storages(); ++s) {
    const Row first = table.first_touch(s);
    const bool older_touched =
        table.predecessor(s) != kNoRow && table.last_touch(table.predecessor(s)) != kNoRow;
    const Position end =
        table.freed_by(s) == kNoRow ? view_.ops - 1 : static_cast<Position>(table.freed_by(s));
    if (table.creator(s) == kNoRow && first == kNoRow) never_used(s, -1, end);
    if (table.creator(s) == kNoRow && first != kNoRow && !older_touched) {
      if (table.predecessor(s) == kNoRow) {
        Gap gap = fill(s);
        gap.epoch = epoch[first];
        if (table.touch(first).writes) gap.epoch = epochs++;
        add_gap(gap, -1, table.op_of(first), -1);
      } else {
        never_used(s, -1, static_cast<Position>(table.op_of(first)) - 1);
      }
    }
    for (Row row = first; row != kNoRow; row = table.next_touch(row)) {
      const Position from = table.op_of(row);
      if (view_.next[row] == kNeverAgain) {
        never_used(s, from, end);
        continue;
      }
      Gap gap = fill(s);
      gap.epoch = epoch[row];
      if (static_cast<Position>(model.chain_until[s]) > from)
        gap.recompute = model.recompute_share_ns(s);
      gap.recompute_until =
          model.chain_until[s] == 0
              ? 0
              : last_at_or_before(static_cast<Position>(model.chain_until[s]) - 1, true) + 1;
      gap.recompute_until = std::min(gap.recompute_until, static_cast<Index>(slots_.size()));
      add_gap(gap, from, view_.next[row], view_.last_write[row]);
    }
  }
  for (std::size_t k = 0; k < slots_.size(); ++k) slots_[k].excess -= unused[k];
  std::stable_sort(gaps_.begin(), gaps_.end(), [](const Gap& a, const Gap& b) {
    return std::pair{a.epoch, a.first - a.written} < std::pair{b.epoch, b.first - b.written};
  });
}

void PricedGaps::add_gap(Gap gap, Position from, Position to, Position written) {
  gap.first = last_at_or_before(from, true) + 1;
  // Before the beginning of `to`: after that of the op before it.
  gap.used = last_at_or_before(to - 1, true);
  gap.last = gap.used + 1;
  if (gap.first >= gap.last) return;
  if (written == kLongAgo) {
    gap.out = 0;
    gap.written = gap.first - 1;
  } else {
    gap.written = last_at_or_before(written, true);
  }
  find_forced(gap);
  work_ += static_cast<double>(gap.last - gap.written);
  gaps_.push_back(gap);
}

void PricedGaps::find_forced(Gap& gap) const {
  for (Index i = gap.first; i < gap.last; ++i) {
    if (gap.bytes <= slots_[wrapped(i)].room) continue;
    if (gap.must_to < gap.must_from) gap.must_from = i;
    gap.must_to = i;
  }
}

void PricedGaps::tabulate(const Prices& prices) {
  const std::size_t count = slots_.size();
  room_before_.assign(4 * count + 1, 0);
  in_.resize(4 * count);
  out_.resize(4 * count);
  recomputation_.resize(4 * count);
  for (std::size_t i = 0; i < 4 * count; ++i) {
    room_before_[i + 1] = room_before_[i] + prices.room[i % count];
    in_[i] = prices.in[i % count];
    out_[i] = prices.out[i % count];
    recomputation_[i] = slots_[i % count].may_wait ? prices.recompute[i % count] : kInfinite;
  }
}

PricedGaps::Choice PricedGaps::stay_or_recompute(const Gap& gap) const {
  const bool forced = gap.must_to >= gap.must_from;
  Choice best;
  best.pays = forced ? kInfinite : 0;
  if (gap.recompute == kInfinite) return best;
  double cheapest = kInfinite;
  Index at = kNone;
  for (Index i = gap.used; i >= gap.first; --i) {
    if (recomputation_[row(i)] < cheapest) {
      cheapest = recomputation_[row(i)];
      at = i;
    }
    if (forced && i < gap.must_to) break;
    if (i >= gap.recompute_until || at == kNone) continue;
    const double yields = gap.bytes * (room_before_[row(i + 1)] - room_before_[row(gap.first)]);
    const double pays = gap.recompute * cheapest - yields;
    if (pays >= best.pays) continue;
    best = {.pays = pays, .from = gap.first, .to = i, .recompute = at};
  }
  return best;
}

// Away and copied back; `pays_out`: and copied out before.
PricedGaps::Choice PricedGaps::leave(const Gap& gap, bool pays_out) const {
  const bool forced = gap.must_to >= gap.must_from;
  const bool free_out = !pays_out || gap.out == 0;
  const auto before = [&](Index i) { return room_before_[row(i)]; };
  if (!free_out) {
    out_at_.resize(static_cast<std::size_t>(gap.last - gap.first));
    out_from_.resize(out_at_.size());
    double cheapest = kInfinite;
    Index at = kNone;
    for (Index i = gap.written; i + 1 < gap.last; ++i) {
      if (out_[row(i)] < cheapest) {
        cheapest = out_[row(i)];
        at = i;
      }
      if (i + 1 < gap.first) continue;
      out_at_[static_cast<std::size_t>(i + 1 - gap.first)] = gap.out * cheapest;
      out_from_[static_cast<std::size_t>(i + 1 - gap.first)] = at;
    }
  }
  Choice best;
  best.pays = kInfinite;
  double cheapest_in = kInfinite;
  Index in_at = kNone;
  double tail =
      kInfinite;  // the least for coming back after an instant: copy in less the room till then
  Index tail_to = kNone, tail_in = kNone;
  for (Index i = gap.used; i >= gap.first; --i) {
    const double price = in_[row(i)];
    if (price < cheapest_in) {
      cheapest_in = price;
      in_at = i;
    }
    if (!forced || i >= gap.must_to) {
      const double back = gap.in * cheapest_in - gap.bytes * before(i + 1);
      if (back < tail) {
        tail = back;
        tail_to = i;
        tail_in = in_at;
      }
    }
    if (forced && i > gap.must_from) continue;
    if (free_out && i > gap.first) continue;
    const double out = free_out ? 0 : out_at_[static_cast<std::size_t>(i - gap.first)];
    const double pays = tail + gap.bytes * before(i) + out;
    if (pays >= best.pays) continue;
    best = {.pays = pays,
            .from = i,
            .to = tail_to,
            .out = free_out ? kNone : out_from_[static_cast<std::size_t>(i - gap.first)],
            .in = tail_in};
  }
  return best;
}

// Whether leaving may be better than staying. Where room costs nothing it is not: a later gap of
// the same epoch could have copied out wherever this one could.
bool PricedGaps::may_gain(const Gap& gap) const {
  return gap.must_to >= gap.must_from || room_before_[row(gap.last)] > room_before_[row(gap.first)];
}

void PricedGaps::take(const Gap& gap, const Choice& choice, Demand& demand) const {
  demand.paid += choice.pays;
  for (Index i = choice.from; i <= choice.to; ++i) demand.away[wrapped(i)] += gap.bytes;
  if (choice.out != kNone) demand.out[wrapped(choice.out)] += gap.out;
  if (choice.in != kNone) demand.in[wrapped(choice.in)] += gap.in;
  if (choice.recompute != kNone) demand.recompute[wrapped(choice.recompute)] += gap.recompute;
}

// The gaps [first, last) of one epoch: the first of them that is copied away pays the copy out.
void PricedGaps::settle(std::size_t first, std::size_t last, Demand& demand) {
  kept_.clear();
  free_.clear();
  double all_kept = 0;
  double after = 0;
  for (std::size_t g = first; g < last; ++g) {
    kept_.push_back(stay_or_recompute(gaps_[g]));
    Choice free;  // of no account for the first one, before which nothing was copied out
    if (g > first) {
      free = kept_.back();
      const Choice leaves = may_gain(gaps_[g]) ? leave(gaps_[g], false) : free;
      if (leaves.pays < free.pays) free = leaves;
    }
    free_.push_back(free);
    all_kept += kept_.back().pays;
    after += free.pays;
  }
  double best = all_kept;
  std::size_t payer = last;
  Choice pays;
  double before = 0;
  for (std::size_t g = first; g < last; ++g) {
    after -= free_[g - first].pays;
    if (may_gain(gaps_[g])) {
      const Choice choice = leave(gaps_[g], true);
      const double sum = before + choice.pays + after;
      if (sum < best) {
        best = sum;
        payer = g;
        pays = choice;
      }
    }
    before += kept_[g - first].pays;
    if (before == kInfinite) break;
  }
  for (std::size_t g = first; g < last; ++g) {
    take(gaps_[g], g < payer ? kept_[g - first] : g == payer ? pays : free_[g - first], demand);
  }
}

void PricedGaps::demand(const Prices& prices, Demand& demand) {
  tabulate(prices);
  demand = Demand(slots_.size());
  for (std::size_t first = 0; first < gaps_.size();) {
    std::size_t last = first + 1;
    while (last < gaps_.size() && gaps_[last].epoch == gaps_[first].epoch) ++last;
    settle(first, last, demand);
    first = last;
  }
}

}  // namespace spillway::planning::bound
