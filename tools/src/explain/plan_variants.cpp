// SPDX-License-Identifier: Apache-2.0
#include "explain/plan_variants.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

namespace spillway::tools {
namespace {

using planning::Problem;

constexpr std::array<std::string_view, 5> kNames{"left-alone", "to-host", "to-disk", "recompute",
                                                 "swap"};

bool contains(std::span<const StorageId> storages, StorageId storage) {
  return std::find(storages.begin(), storages.end(), storage) != storages.end();
}

bool any_action(const Decision& decision, PlanActionKind kind) {
  return std::any_of(decision.actions.begin(), decision.actions.end(),
                     [&](const PlanAction& action) { return action.kind == kind; });
}

bool goes_to(const Decision& decision, Tier tier) {
  const bool evicted =
      std::any_of(decision.actions.begin(), decision.actions.end(), [&](const PlanAction& action) {
        return action.kind == PlanActionKind::kEvict && action.tier == tier;
      });
  const bool demoted = tier == Tier::kDisk && any_action(decision, PlanActionKind::kDemote);
  return evicted || demoted || (decision.place && decision.place->on(tier));
}

/// Removes those of the recomputations attached to one op that nobody needs any more.
void remove_idle_recomputations(Plan& plan, const Trace& trace) {
  std::set<StorageId> dropped;
  for (const PlanAction& action : plan.actions) {
    if (action.kind == PlanActionKind::kDrop) dropped.insert(action.storage);
  }
  std::map<OpIndex, std::set<StorageId>> read;  // by recomputations behind, of one group
  std::vector<PlanAction> kept;
  for (auto action = plan.actions.rbegin(); action != plan.actions.rend(); ++action) {
    if (action->kind == PlanActionKind::kRecompute) {
      std::set<StorageId>& wanted = read[action->at];
      const auto made = trace.ops.creates[action->op];
      const bool needed = std::any_of(made.begin(), made.end(), [&](StorageId each) {
        return dropped.contains(each) || wanted.contains(each);
      });
      if (!needed) continue;
      const auto reads = trace.ops.reads[action->op];
      wanted.insert(reads.begin(), reads.end());
    }
    kept.push_back(*action);
  }
  plan.actions.assign(kept.rbegin(), kept.rend());
}

Plan without(const Trace& trace, const Plan& plan, const Decision& decision) {
  Plan variant = plan;
  std::erase_if(variant.actions, [&](const PlanAction& action) {
    return std::find(decision.actions.begin(), decision.actions.end(), action) !=
           decision.actions.end();
  });
  std::erase_if(variant.places,
                [&](const PlanPlace& place) { return place.storage == decision.storage; });
  remove_idle_recomputations(variant, trace);
  return variant;
}

/// The same evictions and fetches, with another tier.
Plan on_tier(const Plan& plan, const Decision& decision, Tier tier) {
  Plan variant = plan;
  std::erase_if(variant.actions, [&](const PlanAction& action) {
    return action.kind == PlanActionKind::kDemote && action.storage == decision.storage;
  });
  for (PlanAction& action : variant.actions) {
    if (action.storage == decision.storage && action.kind == PlanActionKind::kEvict) {
      action.tier = tier;
    }
  }
  for (PlanPlace& place : variant.places) {
    if (place.storage != decision.storage) continue;
    const bool on_device = place.on(Tier::kDevice);
    place.tiers = 0;
    if (on_device) place.add(Tier::kDevice);
    place.add(tier);
  }
  return variant;
}

/// Which op creates each storage, which is the first to change it then, and which frees it.
struct Lives {
  explicit Lives(const Trace& trace)
      : maker(trace.storages.size(), trace.ops.size()), changed(maker), end(maker) {
    for (std::size_t op = 0; op < trace.ops.size(); ++op) {
      for (const StorageId storage : trace.ops.writes[OpIndex{op}]) {
        const std::size_t row = to_value(storage);
        if (maker[row] < op) changed[row] = std::min(changed[row], op);
      }
      for (const StorageId storage : trace.ops.creates[OpIndex{op}]) maker[to_value(storage)] = op;
      for (const StorageId storage : trace.ops.frees[OpIndex{op}]) end[to_value(storage)] = op;
    }
  }
  std::vector<std::size_t> maker;    ///< the number of ops: made before the step
  std::vector<std::size_t> changed;  ///< the number of ops: not in the step
  std::vector<std::size_t> end;      ///< the number of ops: outlives it
};

/// Recomputations that bring `storage` back before op `at`, in their order: first what the op reads
/// and is dead by then. Nothing where an op on the way cannot be run again, or has made what
/// another changed since.
class RecomputeChain {
 public:
  RecomputeChain(const Trace& trace, const Lives& lives, std::size_t at)
      : trace_(trace), lives_(lives), at_(at) {}

  [[nodiscard]] std::optional<std::vector<std::size_t>> of(StorageId storage) {
    // A chain this long costs more than any copy.
    constexpr std::size_t kLongest = 64;
    if (!add(storage) || ops_.size() > kLongest) return std::nullopt;
    return std::vector<std::size_t>(ops_.begin(), ops_.end());
  }

 private:
  bool add(StorageId first) {
    std::vector<StorageId> wanted{first};
    while (!wanted.empty()) {
      const std::size_t row = to_value(wanted.back());
      const std::size_t maker = lives_.maker[row];
      wanted.pop_back();
      if (maker >= at_ || lives_.changed[row] < at_ || trace_.ops.recomputable[maker] == 0)
        return false;
      if (!ops_.insert(maker).second) continue;
      for (const StorageId read : trace_.ops.reads[OpIndex{maker}]) {
        if (lives_.end[to_value(read)] < at_) wanted.push_back(read);
      }
    }
    return true;
  }

  const Trace& trace_;
  const Lives& lives_;
  std::size_t at_;
  std::set<std::size_t> ops_;
};

/// The first op from `at` on that reads or writes it; the number of ops: none.
std::size_t next_use(const Trace& trace, StorageId storage, std::size_t at) {
  const auto used = [&](std::size_t op) {
    return contains(trace.ops.reads[OpIndex{op}], storage) ||
           contains(trace.ops.writes[OpIndex{op}], storage);
  };
  while (at < trace.ops.size() && !used(at)) ++at;
  return at;
}

/// Dropped at each op of `leaves`, ascending, and made again just before its next use. Nothing
/// where no op of the step makes it, or one on the way cannot be run again.
std::optional<Plan> recomputed(const Problem& problem, Plan variant, StorageId storage,
                               std::span<const std::size_t> leaves) {
  const Lives lives(problem.trace);
  // Several actions of one op are taken in their order: what drops comes first, as it made room.
  std::vector<PlanAction> changed;
  std::size_t back = lives.maker[to_value(storage)];
  for (const std::size_t at : leaves) {
    if (at <= back) continue;  // not used since
    back = next_use(problem.trace, storage, at);
    if (back == problem.trace.ops.size()) return std::nullopt;
    const auto chain = RecomputeChain(problem.trace, lives, back).of(storage);
    if (!chain) return std::nullopt;
    changed.push_back(PlanAction::drop(OpIndex{at}, storage));
    for (const std::size_t op : *chain) {
      changed.push_back(PlanAction::recompute(OpIndex{back}, OpIndex{op}));
    }
  }
  if (changed.empty()) return std::nullopt;
  variant.actions.insert(variant.actions.end(), changed.begin(), changed.end());
  sort(variant);
  return variant;
}

TimeNs time_to_fetch(const Problem& problem, StorageId storage, Tier tier) {
  TimeNs time = 0;
  for (const LinkKind link : {LinkKind::kHostToDevice, LinkKind::kDiskToHost}) {
    if (link == LinkKind::kDiskToHost && tier != Tier::kDisk) continue;
    if (const auto& found = problem.machine.link(link)) {
      time += copy_time(*found, problem.trace.storages.bytes[to_value(storage)]);
    }
  }
  return time;
}

/// So long before `use`, and not before `earliest`.
std::size_t op_before(const Trace& trace, std::size_t use, std::size_t earliest, TimeNs time) {
  std::size_t at = use;
  for (TimeNs ahead = 0; at > earliest && ahead < time; --at)
    ahead += trace.ops.duration_ns[at - 1];
  return at;
}

/// Evicts where it was dropped, and fetches where it was computed again; `early`: one copy time
/// before.
Plan swapped(const Problem& problem, const Plan& plan, const Decision& decision, Tier tier,
             bool early) {
  Plan variant = plan;
  const auto is_own_drop = [&](const PlanAction& action) {
    return action.kind == PlanActionKind::kDrop && action.storage == decision.storage;
  };
  std::erase_if(variant.actions, is_own_drop);
  remove_idle_recomputations(variant, problem.trace);
  const TimeNs copy = early ? time_to_fetch(problem, decision.storage, tier) : 0;
  std::size_t left = 0;
  for (const PlanAction& action : decision.actions) {
    if (is_own_drop(action)) {
      left = to_value(action.at);
      variant.actions.push_back(PlanAction::evict(action.at, decision.storage, tier));
    }
    if (action.kind != PlanActionKind::kRecompute) continue;
    const std::size_t use = to_value(action.at);
    const std::size_t at = op_before(problem.trace, use, std::min(use, left + 1), copy);
    variant.actions.push_back(PlanAction::fetch(OpIndex{at}, decision.storage));
  }
  sort(variant);
  return variant;
}

}  // namespace

std::string_view to_string(OtherWay way) { return kNames.at(static_cast<std::size_t>(way)); }

std::vector<PlanVariant> plan_variants(const Problem& problem, const Plan& plan,
                                       const Decision& decision) {
  std::vector<PlanVariant> variants;
  variants.push_back({OtherWay::kLeftAlone, without(problem.trace, plan, decision)});
  const auto has_room = [&](Tier tier) { return problem.budgets[tier] > Bytes{0}; };
  const bool to_host = goes_to(decision, Tier::kHost);
  const bool to_disk = goes_to(decision, Tier::kDisk);
  if (to_disk && has_room(Tier::kHost)) {
    variants.push_back({OtherWay::kToHost, on_tier(plan, decision, Tier::kHost)});
  }
  if (to_host && !to_disk && has_room(Tier::kDisk)) {
    variants.push_back({OtherWay::kToDisk, on_tier(plan, decision, Tier::kDisk)});
  }
  const bool computed_again = any_action(decision, PlanActionKind::kRecompute);
  if ((to_host || to_disk) && !computed_again) {
    std::vector<std::size_t> leaves;
    for (const PlanAction& action : decision.actions) {
      if (action.kind == PlanActionKind::kEvict) leaves.push_back(to_value(action.at));
    }
    if (auto again =
            recomputed(problem, without(problem.trace, plan, decision), decision.storage, leaves)) {
      variants.push_back({OtherWay::kRecompute, std::move(*again)});
    }
  }
  const bool host = has_room(Tier::kHost);
  if (computed_again && (host || has_room(Tier::kDisk))) {
    const Tier tier = host ? Tier::kHost : Tier::kDisk;
    for (const bool early : {true, false}) {
      variants.push_back({OtherWay::kSwap, swapped(problem, plan, decision, tier, early)});
    }
  }
  return variants;
}

std::vector<PlanVariant> ways_to_leave(const Problem& problem, const Plan& plan, StorageId storage,
                                       const IdleStretch& stretch) {
  std::vector<PlanVariant> variants;
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    if (problem.budgets[tier] == Bytes{0}) continue;
    const OtherWay way = tier == Tier::kHost ? OtherWay::kToHost : OtherWay::kToDisk;
    for (const bool early : {true, false}) {
      const TimeNs copy = early ? time_to_fetch(problem, storage, tier) : 0;
      const std::size_t earliest = stretch.over_end ? 0 : stretch.from;
      Plan variant = plan;
      variant.actions.push_back(PlanAction::evict(OpIndex{stretch.from}, storage, tier));
      variant.actions.push_back(PlanAction::fetch(
          OpIndex{op_before(problem.trace, stretch.to, earliest, copy)}, storage));
      if (stretch.over_end) {
        PlanPlace place;
        place.storage = storage;
        place.add(tier);
        variant.places.push_back(place);
      }
      sort(variant);
      variants.push_back({way, std::move(variant)});
    }
  }
  const std::array<std::size_t, 1> leaves{stretch.from};
  if (!stretch.over_end) {
    if (auto again = recomputed(problem, plan, storage, leaves)) {
      variants.push_back({OtherWay::kRecompute, std::move(*again)});
    }
  }
  return variants;
}

}  // namespace spillway::tools
