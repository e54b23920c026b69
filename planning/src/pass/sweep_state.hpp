// SPDX-License-Identifier: Apache-2.0
// What a pass over the step knows at one op: where storages are, what is queued, what is free.
#pragma once

#include <functional>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pass/arrival_queue.hpp"
#include "pass/link_clock.hpp"
#include "pass/sweep.hpp"
#include "pass/tier_level.hpp"

namespace spillway::planning::pass {

/// Storages of one class differ in size by less than four times; the last one has all above 64 GiB.
inline constexpr std::size_t kBitsPerClass = 2;
inline constexpr std::size_t kSizeClasses = 19;

enum class Where : std::uint8_t { kUnborn, kIn, kHost, kDisk, kDropped, kDead };

struct Item {
  Where where = Where::kUnborn;
  bool host_copy = false;
  bool disk_copy = false;
  bool copied_now = false;    // by leaving last: there was no copy before
  bool unused = false;        // fetched, and not used since: the fetch may still be given up
  Row touch = kNoRow;         // the last one in this step
  Row next = kNoRow;          // position of the next use, replays that need it included
  Row free_from = 0;          // the first op before which it may leave
  Row pinned = kNoRow;        // the op that needs it
  Row read_again = kNoRow;    // the op before which a replay read it last
  std::uint32_t version = 0;  // of its entries in the heaps
  double ready = 0;           // ns: from then on its bytes may be copied out
  double arrival = 0;         // ns: when its copy in ends
};

// Which ops must be run again to have a storage back, and what they read that must be there.
struct Closure {
  bool possible = false;
  double cost = 0;
  std::vector<Row> ops;     // ascending
  std::vector<Row> leaves;  // storages, each once
  std::vector<Row> again;   // storages that come back and are dropped again after their last reader
};

// What replays, run one after the other, make: the most they hold at once, and what stays of it.
struct BatchBytes {
  std::uint64_t most = 0;
  std::uint64_t left = 0;
};

struct Option {
  Remedy remedy = Remedy::kKeep;
  double score = 0;
  Closure closure;  // kForget, where it shall come back
};

class SweepState {
 public:
  SweepState(const StepModel& model, const SweepSettings& settings, const BeginState& begin);

  /// Carries the pass through op `op`. False if it does not fit: `short_by` tells by how much.
  bool step(Row op);
  /// Closes the step. False if it cannot begin again.
  bool finish(SweepResult& result);

  std::uint64_t short_by = 0;
  std::vector<Row> to_blame;  ///< storages whose replays did not fit where the pass stopped

 private:
  using Entry = std::pair<double, std::pair<Row, std::uint32_t>>;
  using Leaving = std::pair<double, std::uint64_t>;

  // sweep_state.cpp: the course of the pass
  void begin_storage(Row storage, const BeginState& begin);
  void make_copy(Row storage, Tier tier, Row at);
  bool bring_in(Row op);
  bool replay_batch(Row op, const std::vector<Row>& roots);
  void run_again(Row op, Row replayed, const Closure& closure);
  void drop_again(Row op, const Closure& closure);
  void release_leaf(Row op, Row leaf);
  void start_op(Row op);
  void touch_all(Row op);
  void end_op(Row op);
  void prefetch(Row op);
  bool queue_next(Row op, bool from_disk);
  void fetch(Row op, Row storage);
  bool stay_after_all(Row op, Row storage);
  void close_wrapping_gap(Row older, Row storage);
  [[nodiscard]] Row next_after(Row storage, Row op) const;
  void choose_workspace(Row op);
  void leave_eagerly(Row op);
  void add_segments(Row op, std::vector<Row>& roots) const;
  [[nodiscard]] std::uint64_t own_need(Row op) const { return model_.created[op] + scratch_[op]; }
  [[nodiscard]] StorageRule rule_of(Row storage) const {
    if (table_.bytes(storage) <= settings_.stay_up_to) return StorageRule::kKeep;
    return settings_.rules.rule.empty() ? StorageRule::kAny : settings_.rules.rule[storage];
  }
  [[nodiscard]] bool may_replay(Row storage) const;
  [[nodiscard]] double lag(Row op) const { return now_ - deadlines_[op]; }

  // sweep_choice.cpp: who leaves
  bool make_room(Row op, std::uint64_t need, Row keep_until);
  bool evict_one(Row op, Row keep_until, std::uint64_t wanted);
  [[nodiscard]] std::size_t size_class(Row storage) const;
  /// `sooner_follow`: each entry of the heap is needed sooner than those before it.
  template <typename Heap>
  void look_at(Heap& heap, bool sooner_follow, Row op, Row keep_until, std::uint64_t wanted,
               Row& best, Option& best_option);
  /// What it costs per byte and time that `storage` leaves, where `wanted` bytes are short.
  [[nodiscard]] Option price(Row op, Row storage, std::uint64_t wanted) const;
  [[nodiscard]] double swap_cost(Row op, Row storage, Tier tier) const;
  [[nodiscard]] std::optional<Tier> tier_for(Row storage, Row at) const;
  [[nodiscard]] bool may_be_nowhere(Row storage) const;
  [[nodiscard]] std::vector<Row> dropped_of(Row op, Row also_dropped) const;
  [[nodiscard]] Closure closure_of(const std::vector<Row>& roots, Row at, Row also_dropped) const;
  [[nodiscard]] BatchBytes bytes_of(const Closure& closure, Row also_dropped) const;
  void make_thrifty(Closure& closure, Row at, Row also_dropped) const;
  [[nodiscard]] Row last_reader(const Closure& closure, Row storage) const;
  [[nodiscard]] Closure to_drop(Row storage, double& cost) const;
  [[nodiscard]] bool fits_replayed(const Closure& closure, Row at, Row also_dropped) const;
  void give_up_fetch(Row storage);
  void leave_by_copy(Row op, Row storage, Tier tier);
  void drop(Row op, Row storage, const Closure& closure);
  void pledge(Row storage, Row at);
  void offer(Row storage);
  void forget_copies(Row storage, Row op);
  void set_away(Row storage, bool away);
  GapChoice& new_choice(Row storage);
  GapChoice& current_choice(Row storage);
  [[nodiscard]] double out_ns(Tier tier, std::uint64_t bytes) const;
  [[nodiscard]] double in_ns(Where where, std::uint64_t bytes) const;
  double wait_for_room(double time, std::uint64_t bytes);

  const StepModel& model_;
  const AccessTable& table_;
  const SweepSettings settings_;
  std::uint64_t capacity_;
  Draft draft_;
  std::vector<Item> items_;
  std::vector<std::uint64_t> scratch_;  // per op, of the alternative that is run
  std::vector<TimeNs> duration_;
  std::vector<std::uint8_t> began_away_;
  std::vector<std::pair<Row, Row>> segments_;          // segment and storage, sorted
  std::unordered_map<Row, std::vector<Row>> pledges_;  // by storage: ops whose replays read it
  std::vector<std::priority_queue<Entry>> by_next_;    // by class of sizes; furthest next use first
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> by_replay_;  // cheapest first
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::uint64_t leaving_bytes_ = 0;
  std::uint64_t used_ = 0;    // on the device, or queued to come
  std::uint64_t inputs_ = 0;  // that every step begins with anew
  TierLevel host_, disk_;
  LinkClock out_link_, disk_out_link_;
  double in_link_free_ = 0, disk_in_link_free_ = 0;
  std::vector<double> deadlines_;  // by position, two steps and one more
  ArrivalQueue arrivals_, disk_arrivals_;
  std::set<std::pair<Row, Row>> away_, away_on_disk_;  // position and storage
  std::vector<double> began_;                          // per op so far: ns
  double now_ = 0;
};

}  // namespace spillway::planning::pass
