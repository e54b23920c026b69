// SPDX-License-Identifier: Apache-2.0
#include "draft/draft.hpp"

#include <algorithm>

namespace spillway::planning {
namespace {

class Writer {
 public:
  Writer(const StepModel& model, const Draft& draft, Plan& plan)
      : table_(model.table), draft_(draft), plan_(plan) {}

  void write() {
    for (const auto& [op, alternative] : draft_.alternatives) {
      plan_.actions.push_back(PlanAction::choose(OpIndex{op}, alternative));
    }
    // Leaving comes before entering, so that within one op memory is free first.
    leave_all(false);
    for (Row row = 0; row < table_.touches(); ++row) {
      const GapEnd end = end_of_gap(table_, row);
      enter(draft_.gap[row], table_.touch(row).storage, end.storage);
    }
    for (Row s = 0; s < table_.storages(); ++s) enter(draft_.leading[s], s, s);
    write_recomputations();
    leave_all(true);
    for (Row s = 0; s < table_.storages(); ++s) place(s);
    sort(plan_);
  }

 private:
  void write_recomputations() {
    std::vector<Recompute> recomputations = draft_.recomputations;
    std::vector<Redrop> redrops = draft_.redrops;
    std::sort(recomputations.begin(), recomputations.end());
    std::stable_sort(redrops.begin(), redrops.end(),
                     [](const Redrop& a, const Redrop& b) { return a.after < b.after; });
    auto redrop = redrops.begin();
    for (const Recompute& recompute : recomputations) {
      plan_.actions.push_back(PlanAction::recompute(OpIndex{recompute.at}, OpIndex{recompute.op}));
      while (redrop != redrops.end() && redrop->after < recompute) ++redrop;
      for (; redrop != redrops.end() && redrop->after == recompute; ++redrop) {
        plan_.actions.push_back(
            PlanAction::drop(OpIndex{recompute.at}, StorageId{redrop->storage}));
      }
    }
  }

  struct Point {
    Row at;
    Row storage;
  };

  // A position past the end of the step is an op of the next one, where the id may be another. At
  // the end itself storages leave this step, and come back in the next.
  [[nodiscard]] Point point(Row position, Row now, Row later, bool leaving) const {
    const Row ops = table_.ops();
    if (position < ops || (leaving && position == ops) || later == kNoRow) {
      return {std::min(position, ops), now};
    }
    return {position - ops, later};
  }

  [[nodiscard]] Row later_id(Row storage, Row end) const {
    return end != kNoRow && table_.successor(storage) == end ? end : kNoRow;
  }

  void leave_all(bool after_recomputations) {
    for (Row row = 0; row < table_.touches(); ++row) {
      if (draft_.gap[row].remedy == Remedy::kKeep) continue;
      const GapEnd end = end_of_gap(table_, row);
      leave(draft_.gap[row], table_.touch(row).storage, end.storage, after_recomputations);
    }
    for (Row s = 0; s < table_.storages(); ++s)
      leave(draft_.leading[s], s, s, after_recomputations);
  }

  void leave(const GapChoice& choice, Row storage, Row end, bool after_recomputations) {
    if (choice.remedy == Remedy::kKeep) return;
    if (choice.more != kNoRow) leave(draft_.again[choice.more], storage, end, after_recomputations);
    if (choice.after_recomputations != after_recomputations) return;
    Point from = point(choice.out_at, storage, later_id(storage, end), true);
    if (dropped_in_next_step(choice, storage)) {
      from = {choice.out_at - table_.ops(), table_.successor(storage)};
    }
    const OpIndex at{from.at};
    const StorageId id{from.storage};
    switch (choice.remedy) {
      case Remedy::kHost:
        plan_.actions.push_back(PlanAction::evict(at, id, Tier::kHost));
        break;
      case Remedy::kDisk:
        plan_.actions.push_back(PlanAction::evict(at, id, Tier::kDisk));
        break;
      default:
        plan_.actions.push_back(PlanAction::drop(at, id));
    }
    if (choice.wait_out && choice.remedy != Remedy::kDrop) {
      plan_.actions.push_back(PlanAction::wait(at, id));
    }
  }

  void enter(const GapChoice& choice, Row storage, Row end) {
    if (choice.more != kNoRow) enter(draft_.again[choice.more], storage, end);
    if (choice.remedy == Remedy::kKeep || choice.remedy == Remedy::kDrop) return;
    if (choice.in_at == kNoRow || end == kNoRow) return;
    const Point to = point(choice.in_at, storage, later_id(storage, end), false);
    plan_.actions.push_back(PlanAction::fetch(OpIndex{to.at}, StorageId{to.storage}));
    if (choice.wait_in) {
      plan_.actions.push_back(PlanAction::wait(OpIndex{to.at}, StorageId{to.storage}));
    }
  }

  // Copies on slower tiers and whether the bytes are on the device, as a set of tiers.
  struct Whereabouts {
    bool device = true;
    bool host = false;
    bool disk = false;

    void evict(Tier tier) {
      device = false;
      if (host || disk) return;
      (tier == Tier::kHost ? host : disk) = true;
    }
    bool operator==(const Whereabouts&) const = default;
  };

  [[nodiscard]] bool dropped_in_next_step(const GapChoice& choice, Row storage) const {
    return choice.remedy == Remedy::kDrop && choice.out_at > table_.ops() &&
           table_.successor(storage) != kNoRow;
  }

  // Where the storage is after the choices of one gap that fall into the step of its touch.
  void pass_gap(Row storage, Whereabouts& now, const GapChoice& first, bool wraps) const {
    const GapChoice* choice = &first;
    while (choice->remedy != Remedy::kKeep) {
      if (choice->out_at > table_.ops() && wraps) return;
      if (wraps && dropped_in_next_step(*choice, storage)) return;
      if (choice->remedy == Remedy::kDrop) {
        now = {false, false, false};
      } else {
        now.evict(choice->remedy == Remedy::kHost ? Tier::kHost : Tier::kDisk);
      }
      if (choice->more == kNoRow) break;
      now.device = true;
      choice = &draft_.again[choice->more];
    }
    if (wraps && choice->in_at < table_.ops()) now.device = true;
  }

  // The part, in this step, of a gap that began in the step before.
  void pass_late_part(Whereabouts& now, const GapChoice& first) const {
    const GapChoice* choice = &first;
    while (choice->remedy == Remedy::kHost || choice->remedy == Remedy::kDisk) {
      if (choice->out_at > table_.ops()) {
        now.evict(choice->remedy == Remedy::kHost ? Tier::kHost : Tier::kDisk);
      }
      if (choice->more == kNoRow) return;
      choice = &draft_.again[choice->more];
    }
  }

  // Where the storage is when the next step begins, from where it is when this one does.
  [[nodiscard]] Whereabouts walk(Row storage, Whereabouts now) const {
    const Row before = table_.predecessor(storage);
    const Row last = before == kNoRow ? kNoRow : table_.last_touch(before);
    if (last != kNoRow) pass_late_part(now, draft_.gap[last]);
    for (Row row = table_.first_touch(storage); row != kNoRow; row = table_.next_touch(row)) {
      now.device = true;
      if (table_.touch(row).writes) now.host = now.disk = false;
      pass_gap(storage, now, draft_.gap[row], table_.next_touch(row) == kNoRow);
    }
    return now;
  }

  void place(Row storage) {
    const Row older = table_.predecessor(storage);
    if (older == kNoRow) return;
    Whereabouts begin;
    if (table_.first_touch(older) == kNoRow) {
      if (draft_.idle[storage] == Tier::kDevice) return;
      begin = {};
      begin.evict(draft_.idle[storage]);
    } else {
      Whereabouts start = walk(older, begin);
      begin = walk(older, start);
    }
    if (begin == Whereabouts{}) return;
    if (begin == Whereabouts{false, false, false} && !table_.only_freed(storage)) return;
    PlanPlace place{.storage = StorageId{storage}};
    if (begin.device) place.add(Tier::kDevice);
    if (begin.host) place.add(Tier::kHost);
    if (begin.disk) place.add(Tier::kDisk);
    plan_.places.push_back(place);
  }

  const AccessTable& table_;
  const Draft& draft_;
  Plan& plan_;
};

}  // namespace

Plan write_plan(const Problem& problem, const StepModel& model, const Draft& draft,
                std::string planner) {
  Plan plan;
  plan.planner = std::move(planner);
  plan.machine = problem.machine.name;
  plan.budgets = problem.budgets;
  plan.structure = structure_hash(problem.trace);
  plan.signatures = known_signatures(problem.trace);
  Writer(model, draft, plan).write();
  return plan;
}

}  // namespace spillway::planning
