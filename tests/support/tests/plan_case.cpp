// SPDX-License-Identifier: Apache-2.0
#include "plan_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "spillway/plan/validator.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/small_steps.hpp"

namespace spillway::testing {
namespace {

/// The least budget of `tier` within which the plan is right, the others being as they are.
void tighten(PlanCase& made, Tier tier) {
  Bytes& budget = made.budgets[tier];
  std::uint64_t low = 0;
  std::uint64_t high = budget.count;
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    budget = {middle};
    (validate(made.plan, made.trace, made.budgets) ? low : high) = middle;
  }
  budget = {high};
}

Machine random_machine(std::mt19937& random, bool host) {
  Machine machine = plain_machine();
  for (auto& link : machine.links) {
    link->bytes_per_second = 1e8 * static_cast<double>(1 + random() % 50);
    link->latency_ns = static_cast<TimeNs>(random() % 10);
  }
  if (!host) {
    for (const LinkKind link : {LinkKind::kDeviceToHost, LinkKind::kHostToDevice}) {
      machine.links[index_of(link)].reset();
    }
  }
  return machine;
}

// --- smaller cases ---

/// The parts of a case that are left out.
struct LeftOut {
  std::vector<bool> storages, plans, ops, places, actions;  // plans: all a plan says of a storage

  explicit LeftOut(const PlanCase& of)
      : storages(of.trace.storages.size()),
        plans(of.trace.storages.size()),
        ops(of.trace.ops.size()),
        places(of.plan.places.size()),
        actions(of.plan.actions.size()) {}
};

/// A case without what is left out, and without what makes no sense then.
class Rest {
 public:
  Rest(const PlanCase& whole, LeftOut out) : whole_(whole), out_(std::move(out)) {}

  /// Nothing if the rest is no right plan for a valid step.
  std::optional<PlanCase> make() {
    leave_out_what_hangs_on_ops();
    number();
    rest_.machine = whole_.machine;
    rest_.budgets = whole_.budgets;
    rest_.steps = whole_.steps;
    add_storages();
    add_ops();
    if (validate(rest_.trace)) return std::nullopt;
    add_plan();
    if (validate(rest_.plan, rest_.trace, rest_.budgets)) return std::nullopt;
    return std::move(rest_);
  }

 private:
  // An op's results are not there without it; the storages that it alone would free were never
  // there.
  void leave_out_what_hangs_on_ops() {
    const TraceOps& ops = whole_.trace.ops;
    std::vector<bool> born(whole_.trace.storages.size());
    for (const StorageId id : ops.creates.items) born[to_value(id)] = true;
    for (std::size_t op = 0; op < ops.size(); ++op) {
      if (!out_.ops[op]) continue;
      for (const StorageId id : ops.creates[OpIndex{op}]) out_.storages[to_value(id)] = true;
      for (const StorageId id : ops.frees[OpIndex{op}]) {
        if (!born[to_value(id)]) out_.storages[to_value(id)] = true;
      }
    }
  }

  void number() {
    std::uint64_t next = 0;
    for (const bool out : out_.storages) storage_.push_back(StorageId{out ? next : next++});
    next = 0;
    for (const bool out : out_.ops) op_.push_back(OpIndex{out ? next : next++});
    op_.push_back(OpIndex{next});
  }

  [[nodiscard]] bool has(StorageId id) const {
    return id != kNoStorage && !out_.storages[to_value(id)];
  }
  [[nodiscard]] StorageId renamed(StorageId id) const { return storage_[to_value(id)]; }

  void add_storages() {
    const TraceStorages& all = whole_.trace.storages;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (out_.storages[i]) continue;
      const StorageId next = all.continues[i];
      rest_.trace.add(TraceStorage{.bytes = all.bytes[i],
                                   .persistent = all.persistent[i] != 0,
                                   .continues = has(next) ? renamed(next) : kNoStorage});
    }
  }

  void add_ops() {
    const TraceOps& all = whole_.trace.ops;
    const auto rest_of = [&](std::span<const StorageId> row) {
      std::vector<StorageId> rest;
      for (const StorageId id : row) {
        if (has(id)) rest.push_back(renamed(id));
      }
      return rest;
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      const OpIndex op{i};
      if (out_.ops[i]) continue;
      rest_.trace.add(TraceOp{.name = "op",
                              .duration_ns = all.duration_ns[i],
                              .recomputable = all.recomputable[i] != 0,
                              .workspace = all.workspace[i],
                              .reads = rest_of(all.reads[op]),
                              .writes = rest_of(all.writes[op]),
                              .creates = rest_of(all.creates[op]),
                              .frees = rest_of(all.frees[op])});
    }
  }

  void add_plan() {
    const auto says = [&](StorageId id) { return has(id) && !out_.plans[to_value(id)]; };
    rest_.plan.planner = whole_.plan.planner;
    rest_.plan.structure = structure_hash(rest_.trace);
    for (std::size_t i = 0; i < whole_.plan.places.size(); ++i) {
      PlanPlace place = whole_.plan.places[i];
      if (out_.places[i] || !says(place.storage)) continue;
      place.storage = renamed(place.storage);
      rest_.plan.places.push_back(place);
    }
    for (std::size_t i = 0; i < whole_.plan.actions.size(); ++i) {
      PlanAction action = whole_.plan.actions[i];
      const bool recomputations = action.kind == PlanActionKind::kRecompute;
      const bool stays = recomputations ? !out_.ops[to_value(action.op)] : says(action.storage);
      if (out_.actions[i] || !stays) continue;
      action.at = op_[to_value(action.at)];
      if (recomputations) {
        action.op = op_[to_value(action.op)];
      } else {
        action.storage = renamed(action.storage);
      }
      rest_.plan.actions.push_back(action);
    }
  }

  const PlanCase& whole_;
  LeftOut out_;
  std::vector<StorageId> storage_;  // by number in the whole
  std::vector<OpIndex> op_;
  PlanCase rest_;
};

/// Leaves out ever shorter runs of what `part` names. True if any could be left out.
bool leave_out(PlanCase& failing, const Judgement& judge, std::vector<bool> LeftOut::*part) {
  bool smaller = false;
  const auto count = [&] { return (LeftOut(failing).*part).size(); };
  for (std::size_t run = std::max<std::size_t>(count() / 2, 1); run > 0; run /= 2) {
    for (std::size_t at = 0; at + run <= count();) {
      LeftOut out(failing);
      std::fill_n((out.*part).begin() + static_cast<std::ptrdiff_t>(at), run, true);
      auto rest = Rest(failing, std::move(out)).make();
      // All a plan says of a storage it may not mention: nothing would be left out.
      const bool less = rest && (rest->plan.actions.size() < failing.plan.actions.size() ||
                                 rest->plan.places.size() < failing.plan.places.size() ||
                                 rest->trace.ops.size() < failing.trace.ops.size() ||
                                 rest->trace.storages.size() < failing.trace.storages.size());
      if (less && judge(*rest)) {
        failing = std::move(*rest);
        smaller = true;
      } else {
        at += run;
      }
    }
  }
  return smaller;
}

std::string ids(const char* what, std::span<const StorageId> row) {
  std::string text;
  for (const StorageId id : row) text += fmt::format(" {}", to_value(id));
  return text.empty() ? text : fmt::format(" {}{}", what, text);
}

}  // namespace

PlanCase random_plan_case(std::uint32_t seed) {
  std::mt19937 random(seed);
  const bool host = random() % 3 != 0;
  PlanCase made;
  made.trace = random_step(random, 5 + random() % 40);
  made.plan = random_plan(random, made.trace, {.host = host, .disk = !host || random() % 3 != 0});
  made.machine = random_machine(random, host);
  made.budgets = {{kGiB, kGiB, kGiB}};
  tighten(made, Tier::kDevice);
  if (host && random() % 2 == 0) tighten(made, Tier::kHost);
  return made;
}

PlanCase shrink(PlanCase failing, const Judgement& judge) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const auto part : {&LeftOut::ops, &LeftOut::storages, &LeftOut::plans, &LeftOut::actions,
                            &LeftOut::places}) {
      smaller = leave_out(failing, judge, part) || smaller;
    }
    while (failing.steps > 1) {
      PlanCase shorter = failing;
      --shorter.steps;
      if (!judge(shorter)) break;
      failing = std::move(shorter);
      smaller = true;
    }
  }
  return failing;
}

std::string describe(const PlanCase& shown) {
  const Trace& trace = shown.trace;
  std::string text =
      fmt::format("  {} times; budgets {} {} {}\n", shown.steps, shown.budgets.bytes[0].count,
                  shown.budgets.bytes[1].count, shown.budgets.bytes[2].count);
  for (std::size_t i = 0; i < trace.storages.size(); ++i) {
    text += fmt::format("  storage {}: {} bytes{}", i, trace.storages.bytes[i].count,
                        trace.storages.persistent[i] != 0 ? ", persistent" : "");
    for (const PlanPlace& place : shown.plan.places) {
      if (to_value(place.storage) != i) continue;
      text += ", begins on";
      for (const Tier tier : kTiers) {
        if (place.on(tier)) text += fmt::format(" {}", to_string(tier));
      }
    }
    text += "\n";
  }
  auto action = shown.plan.actions.begin();
  for (std::size_t i = 0; i <= trace.ops.size(); ++i) {
    const OpIndex op{i};
    for (; action != shown.plan.actions.end() && action->at == op; ++action) {
      const bool recomputations = action->kind == PlanActionKind::kRecompute;
      text += fmt::format("  {} {}", to_string(action->kind),
                          recomputations ? to_value(action->op) : to_value(action->storage));
      if (action->kind == PlanActionKind::kEvict) {
        text += fmt::format(" to {}", to_string(action->tier));
      }
      text += "\n";
    }
    if (i == trace.ops.size()) break;
    text += fmt::format("  op {}: {} ns, workspace {}{}{}{}{}\n", i, trace.ops.duration_ns[i],
                        trace.ops.workspace[i].count, ids("creates", trace.ops.creates[op]),
                        ids("reads", trace.ops.reads[op]), ids("writes", trace.ops.writes[op]),
                        ids("frees", trace.ops.frees[op]));
  }
  for (const LinkKind kind : kLinks) {
    if (const auto& link = shown.machine.link(kind)) {
      text += fmt::format("  {}: {} bytes/s, {} ns\n", to_string(kind), link->bytes_per_second,
                          link->latency_ns);
    }
  }
  return text;
}

}  // namespace spillway::testing
