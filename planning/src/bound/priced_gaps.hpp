// SPDX-License-Identifier: Apache-2.0
// Every gap of the step as the dual of the bound sees it, and what each would do at given prices.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bound/window_scan.hpp"

namespace spillway::planning::bound {

/// One price per slot or instant of one period.
struct Prices {
  explicit Prices(std::size_t instants)
      : room(instants), in(instants), out(instants), recompute(instants) {}
  std::vector<double> room;       ///< ns a byte
  std::vector<double> in;         ///< ns a ns of the link
  std::vector<double> out;        ///< the same
  std::vector<double> recompute;  ///< ns a ns of computing again
};

/// The gaps' choice: a subgradient is this less what there is.
struct Demand {
  explicit Demand(std::size_t instants)
      : away(instants), in(instants), out(instants), recompute(instants) {}
  std::vector<double> away;                ///< bytes, by instant
  std::vector<double> in, out, recompute;  ///< ns, by slot
  double paid = 0;  ///< ns, at the prices, room that being away yields deducted
};

class PricedGaps {
 public:
  /// With the instants and ends of `windows`, and up to `most_instants` more.
  PricedGaps(const CyclicView& view, const Boundary& boundary,
             const std::vector<BoundWindow>& windows, std::size_t most_instants);

  /// The prices that stand for the windows.
  [[nodiscard]] Prices prices_of(const std::vector<BoundWindow>& windows) const;

  [[nodiscard]] std::size_t instants() const { return slots_.size(); }
  /// Bytes that are too many at an instant; negative where there is room.
  [[nodiscard]] double excess(std::size_t instant) const { return slots_[instant].excess; }
  /// The ops' own time from an instant to the next.
  [[nodiscard]] double duration(std::size_t slot) const { return slots_[slot].duration; }
  /// Whether computing may wait there: not while an op runs.
  [[nodiscard]] bool may_wait(std::size_t slot) const { return slots_[slot].may_wait; }
  [[nodiscard]] Row op(std::size_t instant) const { return slots_[instant].op; }
  /// Steps through gaps and their instants that one demand takes.
  [[nodiscard]] double work() const { return work_; }
  [[nodiscard]] std::size_t gaps() const { return gaps_.size(); }

  /// The cheapest choice of each gap at these prices.
  void demand(const Prices& prices, Demand& demand);

 private:
  using Index = std::int64_t;  // of an instant or slot; as many more as there are a period later
  static constexpr Index kNone = std::numeric_limits<Index>::min();

  struct Slot {
    Row op = 0;
    bool ends = false;  // the instant is the op's end, else its beginning
    double excess = 0;
    double room = 0;  // beside what the op needs
    double duration = 0;
    bool may_wait = true;
  };
  struct Gap {
    std::uint32_t epoch = 0;
    Index first = 0, last = 0;          // instants [first, last)
    Index written = 0;                  // slot from which on it can be copied out
    Index used = 0;                     // slot in which it must be back at the latest
    Index must_from = 0, must_to = -1;  // instants at which it cannot stay
    Index recompute_until = 0;          // instants before which it may be made again after
    double bytes = 0, out = 0, in = 0, recompute = 0;
  };
  struct Choice {
    double pays = 0;
    Index from = 0, to = -1;                           // away at these instants
    Index out = kNone, in = kNone, recompute = kNone;  // slots
  };

  using Moment = std::pair<Row, bool>;  // an op's beginning, or its end
  void place_instants(std::vector<Moment> moments, std::size_t most_instants,
                      std::uint64_t capacity);
  void collect(const Boundary& boundary);
  void add_gap(Gap gap, Position from, Position to, Position written);
  void find_forced(Gap& gap) const;
  [[nodiscard]] Index last_at_or_before(Position position, bool end) const;
  [[nodiscard]] std::size_t wrapped(Index index) const;
  [[nodiscard]] std::size_t row(Index index) const {
    return static_cast<std::size_t>(index + 2 * static_cast<Index>(slots_.size()));
  }
  void tabulate(const Prices& prices);
  [[nodiscard]] Choice stay_or_recompute(const Gap& gap) const;
  [[nodiscard]] Choice leave(const Gap& gap, bool pays_out) const;
  [[nodiscard]] bool may_gain(const Gap& gap) const;
  void settle(std::size_t first, std::size_t last, Demand& demand);
  void take(const Gap& gap, const Choice& choice, Demand& demand) const;

  const CyclicView& view_;
  std::vector<Slot> slots_;
  std::vector<Gap> gaps_;  // by epoch, in order
  double work_ = 0;
  // By index, four periods and one more, from two periods before this one on.
  std::vector<double> room_before_, in_, out_, recomputation_;
  mutable std::vector<double> out_at_;
  mutable std::vector<Index> out_from_;
  std::vector<Choice> kept_, free_;
};

}  // namespace spillway::planning::bound
