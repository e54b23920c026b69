// SPDX-License-Identifier: Apache-2.0
#include "spillway/plan/validator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "plan_form.hpp"

namespace spillway {
namespace {

/// Thrown within this file, to leave the walk from wherever the flaw is seen.
struct Found {
  PlanProblem problem;
};

/// One storage while it is alive.
struct Life {
  std::set<Tier> copies;
  std::uint64_t writes = 0;  // by ops other than its creator
  bool fetch_waits = false;  // for room
  bool forget_on_arrival = false;
};

/// The content that an op saw of one storage that it reads.
struct Seen {
  StorageId storage{};
  std::uint64_t writes = 0;
};

class Walk {
 public:
  Walk(const Plan& plan, const Trace& trace, const Budgets& budgets)
      : plan_(plan), trace_(trace), budgets_(budgets), seen_(trace.ops.size()) {}

  void check() {
    for (const PlanAction& action : plan_.actions) {
      if (action.kind != PlanActionKind::kChoose) continue;
      workspace_[action.op] = trace_.ops.alternatives[action.op][action.alternative].workspace;
    }
    begin_step();
    auto action = plan_.actions.begin();
    for (std::size_t op = 0; op <= trace_.ops.size(); ++op) {
      op_ = OpIndex{op};
      const auto first = action;
      while (action != plan_.actions.end() && action->at == op_) ++action;
      group_ = {first, action};
      for (position_ = 0; position_ < group_.size(); ++position_) take(group_[position_]);
      transients_.clear();
      check_levels("with what came in");
      if (op < trace_.ops.size()) run_op();
    }
    end_step();
  }

 private:
  // --- the step's ends ---

  void begin_step() {
    std::set<StorageId> born(trace_.ops.creates.items.begin(), trace_.ops.creates.items.end());
    std::set<StorageId> continued(trace_.storages.continues.begin(),
                                  trace_.storages.continues.end());
    for (std::size_t i = 0; i < trace_.storages.size(); ++i) {
      const StorageId storage{i};
      if (!born.contains(storage)) lives_[storage].copies = {Tier::kDevice};
    }
    for (const PlanPlace& place : plan_.places) {
      const bool anew = trace_.storages.persistent[to_value(place.storage)] == 0 &&
                        !continued.contains(place.storage);
      if (born.contains(place.storage) || anew) {
        fail(PlanFlaw::kPlacedUnborn,
             name_of(place.storage) + " is placed, but is not left over from the step before");
      }
      std::set<Tier>& copies = lives_[place.storage].copies;
      copies.clear();
      for (const Tier tier : kTiers) {
        if (place.on(tier)) copies.insert(tier);
      }
    }
    for (const auto& [storage, life] : lives_) {
      for (const Tier tier : life.copies) used_[index_of(tier)] += bytes_of(storage);
      beginning_[storage] = life.copies;
    }
    check_levels("at the beginning");
  }

  void end_step() {
    for (const auto& [storage, life] : lives_) {
      const StorageId next = trace_.storages.persistent[to_value(storage)] != 0
                                 ? storage
                                 : trace_.storages.continues[to_value(storage)];
      if (next == kNoStorage || life.copies == beginning_.at(next)) continue;
      fail(PlanFlaw::kDoesNotReturn,
           fmt::format("{} ends on {}, but begins on {}", name_of(storage), text_of(life.copies),
                       text_of(beginning_.at(next))));
    }
  }

  // --- actions ---

  void take(const PlanAction& action) {
    if (action.kind == PlanActionKind::kChoose) return;
    if (action.kind == PlanActionKind::kRecompute) return recompute(action.op);
    const StorageId storage = action.storage;
    if (!lives_.contains(storage)) {
      fail(PlanFlaw::kNotAlive,
           fmt::format("{} of {}, which is not alive", to_string(action.kind), name_of(storage)));
    }
    switch (action.kind) {
      case PlanActionKind::kEvict:
        return evict(storage, action.tier);
      case PlanActionKind::kDemote:
        return demote(storage);
      case PlanActionKind::kFetch:
        return fetch(storage);
      case PlanActionKind::kForget:
        return forget(storage);
      case PlanActionKind::kDrop:
        return drop(storage);
      default:
        return wait(storage);
    }
  }

  // Nothing takes time here, so that all is through but what has no room.
  void wait(StorageId storage) {
    if (!lives_.at(storage).fetch_waits) return;
    fail(PlanFlaw::kWaitsForEver,
         fmt::format("computing waits for {}, for which there is no room", name_of(storage)));
  }

  void evict(StorageId storage, Tier tier) {
    Life& life = lives_.at(storage);
    if (tier == Tier::kDevice || budgets_[tier] == Bytes{0}) {
      fail(PlanFlaw::kNoSuchTier, fmt::format("{} is evicted to the {}, which has no budget",
                                              name_of(storage), to_string(tier)));
    }
    if (!life.copies.contains(Tier::kDevice) && !life.fetch_waits) {
      fail(PlanFlaw::kNotOnDevice, name_of(storage) + " is evicted, but is not on the device");
    }
    if (is_used_by_op(storage)) {
      fail(PlanFlaw::kEvictedForNothing,
           fmt::format("{} is evicted, but op {} uses it", name_of(storage), to_value(op_)));
    }
    withdraw(storage);
    // Its place in the queue is free, too: what waited behind it may come in.
    if (!life.copies.contains(Tier::kDevice)) return bring_in_waiting();
    if (life.copies.size() == 1) add_copy(storage, tier);
    remove_copy(storage, Tier::kDevice);
    if (tier == Tier::kDisk && life.copies.contains(Tier::kHost)) demote(storage);
    bring_in_waiting();
  }

  void demote(StorageId storage) {
    Life& life = lives_.at(storage);
    if (life.copies.contains(Tier::kDevice) || !life.copies.contains(Tier::kHost)) {
      fail(PlanFlaw::kNotOnHost, name_of(storage) + " is demoted, but is not on the host alone");
    }
    if (budgets_[Tier::kDisk] == Bytes{0}) {
      fail(PlanFlaw::kNoSuchTier, name_of(storage) + " is demoted, but the disk has no budget");
    }
    withdraw(storage);
    if (!life.copies.contains(Tier::kDisk)) add_copy(storage, Tier::kDisk);
    remove_copy(storage, Tier::kHost);
    bring_in_waiting();
  }

  void fetch(StorageId storage) {
    Life& life = lives_.at(storage);
    if (life.copies.empty()) fail(PlanFlaw::kLost, name_of(storage) + " is fetched, but dropped");
    if (life.copies.contains(Tier::kDevice) || life.fetch_waits) {
      fail(PlanFlaw::kAlreadyOnDevice, name_of(storage) + " is fetched, but is on the device");
    }
    life.fetch_waits = true;
    waiting_.push_back(storage);
    bring_in_waiting();
  }

  void forget(StorageId storage) {
    Life& life = lives_.at(storage);
    if (life.fetch_waits) {
      life.forget_on_arrival = true;
      return;
    }
    if (!life.copies.contains(Tier::kDevice)) {
      fail(PlanFlaw::kNotOnDevice,
           fmt::format("the copies of {} are forgotten, but it is not on the device",
                       name_of(storage)));
    }
    remove_slower(storage);
  }

  void drop(StorageId storage) {
    Life& life = lives_.at(storage);
    if (life.copies.empty()) {
      fail(PlanFlaw::kDroppedTwice, name_of(storage) + " is dropped twice");
    }
    withdraw(storage);
    remove_all(storage);
    bring_in_waiting();
  }

  // --- recomputations ---

  void recompute(OpIndex recomputed) {
    if (trace_.ops.recomputable[to_value(recomputed)] == 0) {
      fail(PlanFlaw::kNotRecomputable,
           fmt::format("op {} is recomputed, but is not recomputable", to_value(recomputed)));
    }
    if (recomputed >= op_) {
      fail(PlanFlaw::kRecomputedTooEarly,
           fmt::format("op {} is recomputed before it has run", to_value(recomputed)));
    }
    Bytes room = workspace_of(recomputed);
    for (const Seen& seen : seen_[to_value(recomputed)]) read_for_recomputation(recomputed, seen);
    std::vector<StorageId> back;
    std::vector<StorageId> made;
    for (const StorageId storage : trace_.ops.creates[recomputed]) {
      room += bytes_of(storage);
      const auto life = lives_.find(storage);
      if (life != lives_.end() && life->second.copies.empty()) {
        if (life->second.writes != 0) {
          fail(PlanFlaw::kRecomputeOfOldValue,
               fmt::format("a recomputation of op {} cannot bring back {}, which was written since",
                           to_value(recomputed), name_of(storage)));
        }
        back.push_back(storage);
      } else if (life == lives_.end() || !life->second.copies.contains(Tier::kDevice)) {
        if (is_read_by_later_recomputation(storage)) made.push_back(storage);
      }
    }
    if (back.empty() && made.empty()) {
      fail(PlanFlaw::kRecomputeForNothing,
           fmt::format("a recomputation of op {} brings nothing back", to_value(recomputed)));
    }
    check_device(room, fmt::format("a recomputation of op {}", to_value(recomputed)));
    for (const StorageId storage : back) add_copy(storage, Tier::kDevice);
    for (const StorageId storage : made) {
      if (transients_.insert(storage).second) used_[0] += bytes_of(storage);
    }
    release_transients();
    bring_in_waiting();
  }

  void read_for_recomputation(OpIndex recomputed, const Seen& seen) {
    const auto life = lives_.find(seen.storage);
    const bool transient = transients_.contains(seen.storage);
    if (!transient && life == lives_.end()) {
      fail(PlanFlaw::kRecomputeInputGone,
           fmt::format("a recomputation of op {} reads {}, which is dead", to_value(recomputed),
                       name_of(seen.storage)));
    }
    const std::uint64_t writes = transient ? 0 : life->second.writes;
    if (writes != seen.writes) {
      fail(PlanFlaw::kRecomputeInputChanged,
           fmt::format("a recomputation of op {} reads {}, which was written since it ran",
                       to_value(recomputed), name_of(seen.storage)));
    }
    if (transient || life->second.copies.contains(Tier::kDevice)) return;
    require_not_lost(seen.storage, fmt::format("a recomputation of op {}", to_value(recomputed)));
    arrive(seen.storage);
  }

  [[nodiscard]] bool is_read_by_later_recomputation(StorageId storage) const {
    for (std::size_t i = position_ + 1; i < group_.size(); ++i) {
      if (group_[i].kind != PlanActionKind::kRecompute) continue;
      const auto reads = trace_.ops.reads[group_[i].op];
      if (std::find(reads.begin(), reads.end(), storage) != reads.end()) return true;
    }
    return false;
  }

  void release_transients() {
    for (auto transient = transients_.begin(); transient != transients_.end();) {
      if (is_read_by_later_recomputation(*transient)) {
        ++transient;
        continue;
      }
      used_[0] -= bytes_of(*transient);
      transient = transients_.erase(transient);
    }
  }

  // --- ops ---

  void run_op() {
    const auto creates = trace_.ops.creates[op_];
    const auto creates_it = [&](StorageId storage) {
      return std::find(creates.begin(), creates.end(), storage) != creates.end();
    };
    for (const StorageLists* list : {&trace_.ops.reads, &trace_.ops.writes}) {
      for (const StorageId storage : (*list)[op_]) {
        if (!creates_it(storage)) bring_in_for_op(storage);
      }
    }
    Bytes room = workspace_of(op_);
    for (const StorageId storage : creates) room += bytes_of(storage);
    check_device(room, fmt::format("op {}", to_value(op_)));
    for (const StorageId storage : trace_.ops.reads[op_]) {
      if (creates_it(storage)) continue;
      seen_[to_value(op_)].push_back({storage, lives_.at(storage).writes});
    }
    for (const StorageId storage : trace_.ops.writes[op_]) {
      if (creates_it(storage)) continue;
      ++lives_.at(storage).writes;
      remove_slower(storage);
    }
    for (const StorageId storage : creates) {
      lives_[storage] = {};
      add_copy(storage, Tier::kDevice);
    }
    used_[0] += workspace_of(op_);
    bring_in_waiting();
    used_[0] -= workspace_of(op_);
    for (const StorageId storage : trace_.ops.frees[op_]) {
      withdraw(storage);
      remove_all(storage);
      lives_.erase(storage);
    }
    bring_in_waiting();
  }

  void bring_in_for_op(StorageId storage) {
    if (lives_.at(storage).copies.contains(Tier::kDevice)) return;
    require_not_lost(storage, fmt::format("op {}", to_value(op_)));
    arrive(storage);
  }

  void require_not_lost(StorageId storage, const std::string& who) {
    if (!lives_.at(storage).copies.empty()) return;
    fail(PlanFlaw::kLost, fmt::format("{} needs {}, which is dropped", who, name_of(storage)));
  }

  [[nodiscard]] bool is_used_by_op(StorageId storage) const {
    if (to_value(op_) == trace_.ops.size()) return false;
    for (const StorageLists* list : {&trace_.ops.reads, &trace_.ops.writes}) {
      const auto row = (*list)[op_];
      if (std::find(row.begin(), row.end(), storage) != row.end()) return true;
    }
    return false;
  }

  // --- memory ---

  /// Fetches that wait come in, in their order, as far as there is room.
  void bring_in_waiting() {
    while (!waiting_.empty()) {
      const StorageId storage = waiting_.front();
      if (used_[0] + bytes_of(storage) > budgets_[Tier::kDevice]) return;
      arrive(storage);
    }
  }

  /// It is on the device from now on, by the fetch that waits or ahead of it.
  void arrive(StorageId storage) {
    const bool forget = lives_.at(storage).forget_on_arrival;
    withdraw(storage);
    add_copy(storage, Tier::kDevice);
    if (forget) remove_slower(storage);
  }

  void withdraw(StorageId storage) {
    Life& life = lives_.at(storage);
    if (life.fetch_waits) waiting_.remove(storage);
    life.fetch_waits = life.forget_on_arrival = false;
  }

  void add_copy(StorageId storage, Tier tier) {
    if (!lives_.at(storage).copies.insert(tier).second) return;
    used_[index_of(tier)] += bytes_of(storage);
    if (tier != Tier::kDevice) check_levels("with " + name_of(storage));
  }
  void remove_copy(StorageId storage, Tier tier) {
    if (lives_.at(storage).copies.erase(tier) != 0) used_[index_of(tier)] -= bytes_of(storage);
  }
  void remove_slower(StorageId storage) {
    remove_copy(storage, Tier::kHost);
    remove_copy(storage, Tier::kDisk);
  }
  void remove_all(StorageId storage) {
    for (const Tier tier : kTiers) remove_copy(storage, tier);
  }

  void check_device(Bytes more, const std::string& who) {
    const Bytes need = used_[0] + more;
    const Bytes have = budgets_[Tier::kDevice];
    if (need <= have) return;
    fail(PlanFlaw::kDeviceOverfull,
         fmt::format("{} needs {} bytes on the device, has {}, short {}", who, need.count,
                     have.count, need.count - have.count));
  }

  void check_levels(const std::string& when) {
    constexpr std::array<PlanFlaw, kTierCount> kFlaws{
        PlanFlaw::kDeviceOverfull, PlanFlaw::kHostOverfull, PlanFlaw::kDiskOverfull};
    for (const Tier tier : kTiers) {
      const Bytes need = used_[index_of(tier)];
      if (need <= budgets_[tier]) continue;
      fail(kFlaws[index_of(tier)],
           fmt::format("{} the {} holds {} bytes, has {}, short {}", when, to_string(tier),
                       need.count, budgets_[tier].count, need.count - budgets_[tier].count));
    }
  }

  // --- words ---

  [[noreturn]] void fail(PlanFlaw flaw, std::string text) const {
    throw Found{{flaw, op_, fmt::format("at op {}: {}", to_value(op_), text)}};
  }
  [[nodiscard]] std::string name_of(StorageId storage) const {
    const std::string_view name = trace_.storages.name[to_value(storage)];
    return name.empty() ? fmt::format("storage {}", to_value(storage))
                        : fmt::format("storage {} ({})", to_value(storage), name);
  }
  static std::string text_of(const std::set<Tier>& tiers) {
    if (tiers.empty()) return "no tier";
    std::vector<std::string_view> names;
    names.reserve(tiers.size());
    for (const Tier tier : tiers) names.push_back(to_string(tier));
    return fmt::format("{}", fmt::join(names, " and "));
  }
  [[nodiscard]] Bytes bytes_of(StorageId storage) const {
    return trace_.storages.bytes[to_value(storage)];
  }
  [[nodiscard]] Bytes workspace_of(OpIndex op) const {
    const auto chosen = workspace_.find(op);
    return chosen != workspace_.end() ? chosen->second : trace_.ops.workspace[to_value(op)];
  }

  const Plan& plan_;
  const Trace& trace_;
  Budgets budgets_;
  std::map<StorageId, Life> lives_;
  std::map<StorageId, std::set<Tier>> beginning_;
  std::array<Bytes, kTierCount> used_{};
  std::list<StorageId> waiting_;         // to be fetched, when there is room
  std::vector<std::vector<Seen>> seen_;  // by op
  std::map<OpIndex, Bytes> workspace_;   // of ops with a chosen alternative
  std::vector<PlanAction> group_;        // the actions of the op
  std::size_t position_ = 0;             // of the action being taken
  std::set<StorageId> transients_;
  OpIndex op_{};
};

}  // namespace

std::optional<PlanProblem> validate(const Plan& plan, const Trace& trace, const Budgets& budgets) {
  if (auto problem = check_form(plan, trace)) return problem;
  try {
    Walk(plan, trace, budgets).check();
    return std::nullopt;
  } catch (const Found& found) {
    return found.problem;
  }
}

}  // namespace spillway
