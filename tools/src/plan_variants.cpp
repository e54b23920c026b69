// SPDX-License-Identifier: Apache-2.0
#include "plan_variants.hpp"

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

/// Of the replays attached to one op, those that nobody needs any more go.
void remove_idle_replays(Plan& plan, const Trace& trace) {
  std::set<StorageId> dropped;
  for (const PlanAction& action : plan.actions) {
    if (action.kind == PlanActionKind::kDrop) dropped.insert(action.storage);
  }
  std::map<OpIndex, std::set<StorageId>> read;  // by replays behind, of one group
  std::vector<PlanAction> kept;
  for (auto action = plan.actions.rbegin(); action != plan.actions.rend(); ++action) {
    if (action->kind == PlanActionKind::kReplay) {
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
  remove_idle_replays(variant, trace);
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

/// Which op creates each storage, and which frees it.
struct Lives {
  explicit Lives(const Trace& trace)
      : maker(trace.storages.size(), trace.ops.size()), end(maker.size(), trace.ops.size()) {
    for (std::size_t op = 0; op < trace.ops.size(); ++op) {
      for (const StorageId storage : trace.ops.creates[OpIndex{op}]) maker[to_value(storage)] = op;
      for (const StorageId storage : trace.ops.frees[OpIndex{op}]) end[to_value(storage)] = op;
    }
  }
  std::vector<std::size_t> maker;  ///< the number of ops: made before the step
  std::vector<std::size_t> end;    ///< the number of ops: outlives it
};

/// Replays that bring `storage` back before op `at`, in their order: first what the op reads and
/// is dead by then. Nothing where an op on the way cannot be run again.
class ReplayChain {
 public:
  ReplayChain(const Trace& trace, const Lives& lives, std::size_t at)
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
      const std::size_t maker = lives_.maker[to_value(wanted.back())];
      wanted.pop_back();
      if (maker >= at_ || trace_.ops.replayable[maker] == 0) return false;
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

/// Drops where it was evicted, and runs its op again where it was fetched.
std::optional<Plan> recomputed(const Problem& problem, const Plan& plan, const Decision& decision) {
  const Lives lives(problem.trace);
  Plan variant = without(problem.trace, plan, decision);
  // Several actions of one op are taken in their order: what drops comes first, as it made room.
  std::vector<PlanAction> changed;
  bool away = decision.place && !decision.place->on(Tier::kDevice);
  for (const PlanAction& action : decision.actions) {
    if (action.kind == PlanActionKind::kEvict && !away) {
      changed.push_back(PlanAction::drop(action.at, decision.storage));
      away = true;
    }
    if (action.kind != PlanActionKind::kFetch || !away) continue;
    // A copy in is queued early; computing again is for the op that needs it.
    std::size_t use = to_value(action.at);
    const auto used = [&](std::size_t op) {
      return contains(problem.trace.ops.reads[OpIndex{op}], decision.storage) ||
             contains(problem.trace.ops.writes[OpIndex{op}], decision.storage);
    };
    while (use < problem.trace.ops.size() && !used(use)) ++use;
    const auto chain = ReplayChain(problem.trace, lives, use).of(decision.storage);
    if (!chain) return std::nullopt;
    for (const std::size_t op : *chain) {
      changed.push_back(PlanAction::replay(OpIndex{use}, OpIndex{op}));
    }
    away = false;
  }
  if (changed.empty()) return std::nullopt;
  variant.actions.insert(variant.actions.end(), changed.begin(), changed.end());
  sort(variant);
  return variant;
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
  remove_idle_replays(variant, problem.trace);
  TimeNs copy = 0;
  for (const LinkKind link : {LinkKind::kHostToDevice, LinkKind::kDiskToHost}) {
    if (link == LinkKind::kDiskToHost && tier != Tier::kDisk) continue;
    if (const auto& found = problem.machine.link(link)) {
      copy += copy_time(*found, problem.trace.storages.bytes[to_value(decision.storage)]);
    }
  }
  std::size_t left = 0;
  for (const PlanAction& action : decision.actions) {
    if (is_own_drop(action)) {
      left = to_value(action.at);
      variant.actions.push_back(PlanAction::evict(action.at, decision.storage, tier));
    }
    if (action.kind != PlanActionKind::kReplay) continue;
    std::size_t at = to_value(action.at);
    for (TimeNs ahead = 0; early && at > left + 1 && ahead < copy; --at) {
      ahead += problem.trace.ops.duration_ns[at - 1];
    }
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
  const bool computed_again = any_action(decision, PlanActionKind::kReplay);
  if ((to_host || to_disk) && !computed_again) {
    if (auto again = recomputed(problem, plan, decision)) {
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

}  // namespace spillway::tools
