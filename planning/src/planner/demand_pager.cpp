// SPDX-License-Identifier: Apache-2.0
#include "demand_pager.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace spillway::planning {
namespace {

// Settling takes two passes as a rule: one to leave the arbitrary beginning, one to see it again.
constexpr int kMostPasses = 4;

class Pager {
 public:
  Pager(const StepModel& model, VictimOrder order)
      : model_(model),
        table_(model.table),
        order_(order),
        draft_(table_),
        lives_(table_.storages()) {}

  std::optional<Draft> run() {
    if (!place_idle()) return std::nullopt;
    begin_first_step();
    for (int pass = 0; pass < kMostPasses; ++pass) {
      const std::vector<Row> beginning = on_device();
      clear_draft();
      if (!run_step()) return std::nullopt;
      begin_next_step();
      // In the first pass gaps that wrap have no touch before them to be named by.
      if (pass > 0 && on_device() == beginning) break;
    }
    return std::move(draft_);
  }

 private:
  struct Life {
    bool alive = false;
    bool resident = false;
    bool idle = false;
    Row gap = kNoRow;      // the touch it was last used by; kNoRow: an input before its first use
    bool wrapped = false;  // that touch was in the step before
    Row used = 0;          // the op of that touch, counted on over the end of the step
    std::array<bool, kTierCount> copy{};  // on the slower tiers
  };
  // Greater leaves first; the storage makes the order total.
  using Rank = std::pair<std::uint64_t, Row>;

  [[nodiscard]] Rank rank_of(Row storage) const {
    const Life& life = lives_[storage];
    if (order_ == VictimOrder::kLeastRecentlyUsed) {
      const std::uint64_t age = life.wrapped ? table_.ops() : 0;
      return {table_.ops() + age - life.used, storage};
    }
    return {next_use(storage), storage};
  }

  /// Counted from the beginning of this step.
  [[nodiscard]] std::uint64_t next_use(Row storage) const {
    const Life& life = lives_[storage];
    Row touch = life.gap == kNoRow || life.wrapped ? table_.first_touch(storage)
                                                   : table_.next_touch(life.gap);
    if (touch != kNoRow) return table_.op_of(touch);
    const Row next = table_.successor(storage);
    touch = next == kNoRow ? kNoRow : table_.first_touch(next);
    return touch == kNoRow ? ~std::uint64_t{0} : std::uint64_t{table_.ops()} + table_.op_of(touch);
  }

  // --- steps ---

  /// A storage that is never touched lies below the device from the beginning.
  bool place_idle() {
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      if (table_.first_touch(storage) != kNoRow || table_.successor(storage) != storage) continue;
      Life& life = lives_[storage];
      life.alive = life.idle = true;
      const auto tier = tier_for(storage);
      if (!tier) return false;
      draft_.idle[storage] = *tier;
      used_[index_of(*tier)] += table_.bytes(storage);
    }
    return true;
  }

  void begin_first_step() {
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      if (table_.creator(storage) != kNoRow || lives_[storage].idle) continue;
      lives_[storage].alive = true;
      enter(storage);
    }
  }

  void begin_next_step() {
    std::vector<Life> next(lives_.size());
    residents_.clear();
    used_ = idle_used();
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      Life& life = lives_[storage];
      const Row successor = table_.successor(storage);
      if (!life.alive || (successor == kNoRow && table_.creator(storage) != kNoRow)) continue;
      if (life.idle) next[storage] = life;
      if (life.idle || successor == kNoRow) continue;
      next[successor] = life;
      next[successor].wrapped = true;
    }
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      const bool anew = table_.creator(storage) == kNoRow &&
                        table_.predecessor(storage) == kNoRow && !lives_[storage].idle;
      if (anew) next[storage] = {.alive = true, .resident = true};
    }
    lives_ = std::move(next);
    for (Row storage = 0; storage < table_.storages(); ++storage) count_in(storage);
  }

  void count_in(Row storage) {
    const Life& life = lives_[storage];
    if (!life.alive || life.idle) return;
    if (life.resident) {
      used_[0] += table_.bytes(storage);
      residents_.insert(rank_of(storage));
    }
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (life.copy[index_of(tier)]) used_[index_of(tier)] += table_.bytes(storage);
    }
  }

  [[nodiscard]] std::array<std::uint64_t, kTierCount> idle_used() const {
    std::array<std::uint64_t, kTierCount> used{};
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      if (lives_[storage].idle) used[index_of(draft_.idle[storage])] += table_.bytes(storage);
    }
    return used;
  }

  void clear_draft() {
    std::fill(draft_.gap.begin(), draft_.gap.end(), GapChoice{});
    std::fill(draft_.leading.begin(), draft_.leading.end(), GapChoice{});
  }

  [[nodiscard]] std::vector<Row> on_device() const {
    std::vector<Row> result;
    for (Row storage = 0; storage < table_.storages(); ++storage) {
      if (lives_[storage].alive && lives_[storage].resident) result.push_back(storage);
    }
    return result;
  }

  bool run_step() {
    for (Row op = 0; op < table_.ops(); ++op) {
      std::uint64_t more = table_.workspace(op);
      for_touches(op, [&](Row, Row storage) {
        if (!lives_[storage].resident) more += table_.bytes(storage);
      });
      if (!make_room(op, more)) return false;
      for_touches(op, [&](Row touch, Row storage) { use(op, touch, storage); });
      for (const Row storage : table_.frees(op)) free(storage);
    }
    return true;
  }

  template <typename Visit>
  void for_touches(Row op, const Visit& visit) const {
    const Row end = table_.last_touch_of_op(op);
    for (Row touch = table_.first_touch_of_op(op); touch < end; ++touch) {
      visit(touch, table_.touch(touch).storage);
    }
  }

  // --- storages ---

  bool make_room(Row op, std::uint64_t more) {
    if (used_[0] + more <= model_.budget(Tier::kDevice)) return true;
    // The op's own storages stay: they are set aside while victims are chosen.
    for_touches(op, [&](Row, Row storage) { residents_.erase(rank_of(storage)); });
    bool fits = true;
    while (fits && used_[0] + more > model_.budget(Tier::kDevice)) {
      fits = !residents_.empty() && leave(op, std::prev(residents_.end())->second);
    }
    for_touches(op, [&](Row, Row storage) {
      if (lives_[storage].alive && lives_[storage].resident) residents_.insert(rank_of(storage));
    });
    return fits;
  }

  bool leave(Row op, Row storage) {
    Life& life = lives_[storage];
    const auto tier = tier_for(storage);
    if (!tier) return false;
    GapChoice& choice = life.gap == kNoRow ? draft_.leading[storage] : draft_.gap[life.gap];
    choice.remedy = *tier == Tier::kHost ? Remedy::kHost : Remedy::kDisk;
    choice.out_at = life.wrapped ? op + table_.ops() : op;
    residents_.erase(rank_of(storage));
    life.resident = false;
    used_[0] -= table_.bytes(storage);
    if (std::exchange(life.copy[index_of(*tier)], true)) return true;
    used_[index_of(*tier)] += table_.bytes(storage);
    return true;
  }

  /// Where its copy lies or would lie: the fastest tier that has room.
  [[nodiscard]] std::optional<Tier> tier_for(Row storage) const {
    const Life& life = lives_[storage];
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (life.copy[index_of(tier)]) return tier;
    }
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (tier == Tier::kHost ? !model_.has_host() : !model_.has_disk()) continue;
      if (used_[index_of(tier)] + table_.bytes(storage) <= model_.budget(tier)) return tier;
    }
    return std::nullopt;
  }

  void enter(Row storage) {
    Life& life = lives_[storage];
    life.resident = true;
    used_[0] += table_.bytes(storage);
    residents_.insert(rank_of(storage));
  }

  void use(Row op, Row touch, Row storage) {
    Life& life = lives_[storage];
    life.alive = true;
    if (!life.resident) enter(storage);
    residents_.erase(rank_of(storage));
    life.gap = touch;
    life.wrapped = false;
    life.used = op;
    residents_.insert(rank_of(storage));
    if (table_.touch(touch).writes) remove_copies(storage);
  }

  void remove_copies(Row storage) {
    Life& life = lives_[storage];
    for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
      if (!std::exchange(life.copy[index_of(tier)], false)) continue;
      used_[index_of(tier)] -= table_.bytes(storage);
    }
  }

  void free(Row storage) {
    Life& life = lives_[storage];
    remove_copies(storage);
    if (life.resident) {
      residents_.erase(rank_of(storage));
      used_[0] -= table_.bytes(storage);
    }
    life = {};
  }

  const StepModel& model_;
  const AccessTable& table_;
  VictimOrder order_;
  Draft draft_;
  std::vector<Life> lives_;
  std::set<Rank> residents_;
  std::array<std::uint64_t, kTierCount> used_{};
};

}  // namespace

std::optional<Draft> page_on_demand(const StepModel& model, VictimOrder order) {
  return Pager(model, order).run();
}

}  // namespace spillway::planning
