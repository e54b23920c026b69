// SPDX-License-Identifier: Apache-2.0
// Wang et al., "SuperNeurons: dynamic GPU memory management for training deep neural networks",
// PPoPP 2018. See docs/planners/README.md.
#include <algorithm>
#include <array>
#include <string>

#include "pass/sweep.hpp"
#include "planner/forward_pass.hpp"
#include "planner/gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

constexpr std::array<std::string_view, 4> kStrategies{"none", "speed", "memory", "cost-aware"};

const std::array kFields{
    OptionField{"offload", "Outputs of compute-heavy ops go to the host.", true},
    OptionField{"tensor-cache",
                "Copies are made only when the device is full, least recently used first.", true},
    OptionField{"recompute",
                "What is cheap between the offloaded outputs: none, speed (a segment is run again "
                "once and kept), memory (for each use anew), cost-aware (speed where the segment "
                "fits beside the largest op, else memory).",
                std::string("cost-aware"), 0, 0, kStrategies},
    OptionField{"workspace", "Ops run as the fastest algorithm whose workspace fits.", true},
    OptionField{"prefetch", "The next offloaded output is fetched during the op before its use.",
                true},
};

class Rules {
 public:
  Rules(const Problem& problem, const StepModel& model, const Options& options)
      : table_(model.table), options_(options) {
    rules_.rule.assign(table_.storages(), StorageRule::kKeep);
    rules_.leave_before.assign(table_.storages(), kNoRow);
    rules_.segment.assign(table_.storages(), kNoRow);
    rules_.drop_after_use.assign(table_.storages(), 0);
    for (Row op = 0; op < table_.ops(); ++op) {
      largest_ = std::max(largest_, table_.working_set(op));
    }
    const ForwardPass pass = forward_pass(problem, model);
    const std::vector<bool> heavy = heavy_ops(problem, model);
    Row segment = 0;
    std::vector<Row> members;
    for (const Row storage : pass.saved) {
      const bool cheap = !heavy[table_.creator(storage)];
      if (cheap && model.recompute_op[storage] != kNoRow && strategy() != "none") {
        members.push_back(storage);
        continue;
      }
      close_segment(members, segment++, pass.turn);
      if (!options.get<bool>("offload")) continue;
      rules_.rule[storage] = StorageRule::kSwapOnly;
      if (!options.get<bool>("tensor-cache")) rules_.leave_before[storage] = pass.turn;
    }
    close_segment(members, segment, pass.turn);
  }

  SweepRules take() { return std::move(rules_); }

 private:
  [[nodiscard]] const std::string& strategy() const {
    return options_.get<std::string>("recompute");
  }

  void close_segment(std::vector<Row>& members, Row segment, Row turn) {
    std::uint64_t bytes = 0;
    for (const Row storage : members) bytes += table_.bytes(storage);
    const bool speed = strategy() == "speed" || (strategy() == "cost-aware" && bytes <= largest_);
    for (const Row storage : members) {
      rules_.rule[storage] = StorageRule::kRecomputeOnly;
      rules_.leave_before[storage] = turn;
      if (speed) {
        rules_.segment[storage] = segment;
      } else {
        rules_.drop_after_use[storage] = 1;
      }
    }
    members.clear();
  }

  const AccessTable& table_;
  const Options& options_;
  std::uint64_t largest_ = 0;  // bytes that one op needs
  SweepRules rules_;
};

SweepSettings settings_for(const Problem& problem, const StepModel& model, const Options& options) {
  SweepSettings settings;
  settings.rules = Rules(problem, model, options).take();
  settings.order = LeaveOrder::kOldest;
  settings.candidates = 1;
  settings.early_out = !options.get<bool>("tensor-cache");
  settings.prefetch = options.get<bool>("prefetch");
  settings.choose_workspace = options.get<bool>("workspace");
  settings.lead = 1.0;
  return settings;
}

class SuperNeuronsPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "superneurons"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Offloads outputs of compute-heavy ops through an LRU tensor cache and computes cheap "
           "ones again (Wang et al. 2018).";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const std::string label = label_of(*this, options);
    return outcome_of(problem, context,
                      [&](const Problem& p, const StepModel& m) -> std::optional<Plan> {
                        BeginState begin;
                        begin.away.assign(m.table.storages(), 0);
                        SweepSettings settings = settings_for(p, m, options);
                        // Where the greedy pass then finds no room for what the next run needs,
                        // with less thrift.
                        for (const bool thrifty : {true, false}) {
                          settings.rules.drop_in_passing = thrifty;
                          const SweepResult result = sweep_from(m, settings, begin);
                          if (!result.feasible) continue;
                          if (auto plan = checked_plan(p, m, result.draft, label)) return plan;
                        }
                        return std::nullopt;
                      });
  }
};

}  // namespace

const Planner& superneurons_planner() {
  static const SuperNeuronsPlanner planner;
  return planner;
}

}  // namespace spillway::planning
