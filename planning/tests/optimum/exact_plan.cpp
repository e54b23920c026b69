// SPDX-License-Identifier: Apache-2.0
#include "exact_plan.hpp"

#include <array>

namespace spillway::planning::exact {
namespace {

class Writer {
 public:
  Writer(const Problem& problem, const std::vector<OpFacts>& ops, const State& begin,
         const std::vector<Noted>& deeds)
      : problem_(problem), ops_(ops), begin_(begin), deeds_(deeds) {}

  [[nodiscard]] Plan write(bool early) const {
    Plan plan{.planner = "exact search",
              .budgets = problem_.budgets,
              .structure = structure_hash(problem_.trace)};
    for (std::size_t s = 0; s < problem_.trace.storages.size(); ++s) {
      if (problem_.trace.storages.persistent[s] == 0) continue;
      PlanPlace place{.storage = StorageId{s}};
      if (in(begin_.device, s) || link_of(begin_, s)) place.add(Tier::kDevice);
      if (in(begin_.host, s) || link_of(begin_, s)) place.add(Tier::kHost);
      plan.places.push_back(place);
    }
    std::array<bool, 16> leaving{};  // sent off, and has not come back
    for (std::size_t i = 0; i < deeds_.size(); ++i) {
      const Noted& deed = deeds_[i];
      const StorageId storage{deed.what};
      const bool used = deed.at < ops_.size() && in(ops_[deed.at].reads, deed.what);
      const bool sends = early && deed.deed == Deed::kOut;
      const OpIndex at{sends ? sent_off_at(deed.at, deed.what)
                             : deed.at + (deed.running && used ? 1 : 0)};
      if (sends && to_value(at) > deed.at) {
        for (PlanPlace& place : plan.places) {
          if (place.storage == storage) place.add(Tier::kHost);
        }
      }
      bool& sent = leaving[deed.what < 16 ? deed.what : 0];
      if (deed.deed == Deed::kRecompute)
        plan.actions.push_back(PlanAction::recompute(at, OpIndex{deed.what}));
      if (deed.deed == Deed::kDrop) plan.actions.push_back(PlanAction::drop(at, storage));
      if (deed.deed == Deed::kForget) plan.actions.push_back(PlanAction::forget(at, storage));
      if (deed.deed == Deed::kIn) {
        if (deed.kind == kPlain || !came_on(i)) {
          plan.actions.push_back(PlanAction::fetch(at, storage));
        }
        sent = false;
      }
      if (deed.deed == Deed::kDemote && deed.kind == kPlain) {
        plan.actions.push_back(PlanAction::demote(at, storage));
      }
      if (deed.deed == Deed::kOut || (deed.deed == Deed::kLeave && !sent)) {
        const Tier tier = deed.kind == kThrough ? Tier::kDisk : Tier::kHost;
        plan.actions.push_back(PlanAction::evict(at, storage, tier));
        sent = true;
        if (deed.deed == Deed::kOut && stays(i)) {
          plan.actions.push_back(PlanAction::fetch(at, storage));
          sent = false;
        }
      }
    }
    sort(plan);
    return plan;
  }

 private:
  /// The last op up to this one that does not use it, or the end of the step before.
  [[nodiscard]] std::size_t sent_off_at(std::size_t op, std::size_t storage) const {
    while (op < ops_.size() && in(ops_[op].reads | ops_[op].creates, storage)) {
      op = op == 0 ? ops_.size() : op - 1;
    }
    return op;
  }
  /// Whether it is the second half of a way in.
  [[nodiscard]] bool came_on(std::size_t from) const {
    bool half = false;
    for (std::size_t i = 0; i < from; ++i) {
      if (deeds_[i].what == deeds_[from].what && deeds_[i].deed == Deed::kIn) {
        half = deeds_[i].kind == kThrough && !half;
      }
    }
    return half;
  }
  [[nodiscard]] bool stays(std::size_t from) const {
    for (std::size_t i = from + 1; i < deeds_.size(); ++i) {
      const std::uint8_t what = deeds_[i].what;
      if (deeds_[i].deed == Deed::kOp && in(ops_[what].reads, deeds_[from].what)) return true;
      if (deeds_[i].deed == Deed::kRecompute && in(ops_[what].reads, deeds_[from].what))
        return true;
      if (deeds_[i].deed == Deed::kLeave && what == deeds_[from].what) return false;
    }
    return true;
  }

  const Problem& problem_;
  const std::vector<OpFacts>& ops_;
  const State& begin_;
  const std::vector<Noted>& deeds_;
};

}  // namespace

Plan plan_of(const Problem& problem, const std::vector<OpFacts>& ops, const State& begin,
             const std::vector<Noted>& deeds, bool early) {
  return Writer(problem, ops, begin, deeds).write(early);
}

}  // namespace spillway::planning::exact
