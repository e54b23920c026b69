// SPDX-License-Identifier: Apache-2.0
#include "bound/state_ascent.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "bound/aimed_ascent.hpp"
#include "bound/state_graph.hpp"

namespace spillway::planning::bound {
namespace {

// Some tens of milliseconds to build the graph, and as many for each hundred turns.
constexpr Position kMostOps = 48;
constexpr std::size_t kMostTransitions = 30'000;
constexpr double kWork = 1e7;  // transitions looked at, over all turns
constexpr double kMostTurns = 400;

constexpr int kPatience = 8;
constexpr double kFirstAim = 0.25;  // as a share of the step

class StateAscent {
 public:
  StateAscent(const CyclicView& view, const StateGraph& graph, LinkPrices start)
      : view_(view),
        graph_(graph),
        slots_(graph.instants()),
        now_(std::move(start)),
        best_prices_(now_),
        gradient_(2 * slots_),
        direction_(2 * slots_) {}

  PricedStep ascend(int turns) {
    ascend_aiming(*this, turns, {.patience = kPatience, .first = kFirstAim * view_.period});
    return best_;
  }

  double evaluate() {
    steps_.resize(slots_);
    steps_[0].assign(graph_.states(0), {.cost = 0});
    for (std::size_t slot = 0; slot + 1 < slots_; ++slot) {
      cheapest_.assign(2 * graph_.tracked(), kUnknown);
      steps_[slot + 1].assign(graph_.states(slot + 1), {});
      for (const StateGraph::Transition& way : graph_.transitions(slot)) {
        double cost = steps_[slot][way.from].cost + now_.in[slot] * way.in +
                      now_.out[slot] * way.out + left(slot) * way.waits;
        for (const StateGraph::Copy& copy : graph_.copies(way)) {
          const std::size_t at = looked_up(copy, slot);
          cost += graph_.copy_ns(copy) * (copy.out ? now_.out[at] : now_.in[at]);
        }
        Step& step = steps_[slot + 1][way.to];
        if (cost < step.cost) step = {cost, &way};
      }
    }
    std::size_t end = 0;
    const auto& last = steps_[slots_ - 1];
    for (std::size_t i = 1; i < last.size(); ++i) {
      if (last[i].cost < last[end].cost) end = i;
    }
    if (last.empty() || last[end].cost == kNever) return kNever;
    double value = last[end].cost;
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      value -= (now_.in[slot] + now_.out[slot]) * duration(slot);
      gradient_[slot] = gradient_[slots_ + slot] = -duration(slot);
    }
    follow(end);
    return value;
  }

  [[nodiscard]] double best() const { return best_.extra_ns; }

  void keep(double value) {
    best_prices_ = now_;
    best_.extra_ns = value;
    best_.paid = paid_;
  }

  void start_over() {
    now_ = best_prices_;
    std::fill(direction_.begin(), direction_.end(), 0.0);
  }

  bool move(double missing) {
    const double squared = deflect(direction_, gradient_, [this](std::size_t i) {
      return i < slots_ ? now_.in[i] : now_.out[i - slots_];
    });
    if (squared <= 0) return false;
    const double length = std::max(missing, 0.0) / squared;
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      std::tie(now_.in[slot], now_.out[slot]) =
          nearest_allowed(now_.in[slot] + length * direction_[slot],
                          now_.out[slot] + length * direction_[slots_ + slot], slot % 2 == 1);
    }
    return true;
  }

 private:
  struct Step {
    double cost = kNever;
    const StateGraph::Transition* by = nullptr;
  };

  [[nodiscard]] std::size_t wrapped(Position slot) const {
    const auto count = static_cast<Position>(slots_);
    return static_cast<std::size_t>(((slot % count) + count) % count);
  }
  [[nodiscard]] double duration(std::size_t slot) const {
    const auto op = static_cast<Row>(slot / 2);
    return slot % 2 == 0 ? static_cast<double>(view_.model->least_duration[op]) : 0;
  }

  // The slot of a window in which a copy is cheapest.
  [[nodiscard]] std::size_t cheapest(const StateGraph::Copy& copy, std::size_t slot) const {
    const StateGraph::Window window = graph_.window(copy, slot);
    const std::vector<double>& prices = copy.out ? now_.out : now_.in;
    std::size_t best = wrapped(window.first);
    for (Position at = window.first + 1; at <= window.last; ++at) {
      if (prices[wrapped(at)] < prices[best]) best = wrapped(at);
    }
    return best;
  }

  [[nodiscard]] double left(std::size_t slot) const {
    return std::max(0.0, 1 - now_.in[slot] - now_.out[slot]);
  }

  // The cheapest slot of each copy of a slot is looked for once.
  std::size_t looked_up(const StateGraph::Copy& copy, std::size_t slot) {
    std::size_t& entry = cheapest_[2 * copy.tracked + (copy.out ? 1 : 0)];
    if (entry == kUnknown) entry = cheapest(copy, slot);
    return entry;
  }

  // The cheapest way back from its end: what it takes of the links.
  void follow(std::size_t state) {
    paid_ = {};
    for (std::size_t slot = slots_ - 1; slot-- > 0;) {
      const StateGraph::Transition& way = *steps_[slot + 1][state].by;
      take(false, slot, way.in);
      take(true, slot, way.out);
      gradient_[slot] -= way.waits;
      gradient_[slots_ + slot] -= way.waits;
      share_out(left(slot) * way.waits, way);
      for (const StateGraph::Copy& copy : graph_.copies(way)) {
        take(copy.out, cheapest(copy, slot), graph_.copy_ns(copy));
      }
      state = way.from;
    }
  }

  // The cost of waiting goes to the jobs that are waited for.
  void share_out(double ns, const StateGraph::Transition& way) {
    const double all = way.in + way.out + way.runs;
    if (all <= 0) return;
    paid_.in += ns * way.in / all;
    paid_.out += ns * way.out / all;
    paid_.again += ns * way.runs / all;
  }

  void take(bool out, std::size_t slot, double ns) {
    gradient_[(out ? slots_ : 0) + slot] += ns;
    (out ? paid_.out : paid_.in) += ns * (out ? now_.out[slot] : now_.in[slot]);
  }

  static constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

  const CyclicView& view_;
  const StateGraph& graph_;
  std::size_t slots_;
  LinkPrices now_, best_prices_;
  std::vector<double> gradient_, direction_;
  std::vector<std::vector<Step>> steps_;  // by instant and state
  std::vector<std::size_t> cheapest_;     // by tracked storage and direction, of one slot
  BoundPayment paid_;
  PricedStep best_;
};

}  // namespace

PricedStep ascend_state_prices(const CyclicView& view, const Boundary& boundary,
                               const LinkPrices& start) {
  PricedStep none;
  if (view.ops > kMostOps) return none;
  const StateGraph graph(view, boundary, kMostTransitions);
  if (!graph.usable()) return none;
  const std::size_t slots = graph.instants();
  std::size_t transitions = 0;
  for (std::size_t slot = 0; slot + 1 < slots; ++slot)
    transitions += graph.transitions(slot).size();
  const int turns =
      static_cast<int>(std::min(kMostTurns, kWork / (static_cast<double>(transitions) + 1)));
  LinkPrices zero{std::vector<double>(slots), std::vector<double>(slots)};
  PricedStep best = StateAscent(view, graph, std::move(zero)).ascend(turns);
  if (start.in.size() == slots) {
    PricedStep other = StateAscent(view, graph, start).ascend(turns);
    if (other.extra_ns > best.extra_ns) best = std::move(other);
  }
  best.to_disk = boundary.to_disk;
  best.instant = view.fullest();
  return best;
}

}  // namespace spillway::planning::bound
