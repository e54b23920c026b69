// SPDX-License-Identifier: Apache-2.0
#include "final_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "rewrite.hpp"
#include "spillway/runtime/shown_movers.hpp"

namespace spillway::tf {
namespace {

Bytes stored(const runtime::StoreStatistics& moved) {
  return moved.stored_on_host + moved.stored_on_disk;
}

Bytes loaded(const runtime::StoreStatistics& moved) {
  return moved.loaded_from_host + moved.loaded_from_disk;
}

nlohmann::json memory_json(const RunFigures& run, const VariablesUsage& variables) {
  const MemoryUsage& memory = run.memory;
  return {{"budget_bytes", memory.budget.count},
          {"device_bytes", memory.held.count},
          {"peak_device_bytes", memory.peak_held.count},
          {"overshoot_bytes", saturating_sub(memory.peak_held, memory.budget).count},
          {"live_bytes", memory.live.count},
          {"peak_live_bytes", memory.peak_live.count},
          {"allocations", memory.allocations},
          {"waiting_allocations", memory.waits},
          {"failed_allocations", memory.failures},
          {"host_bytes", run.store.host.count},
          {"disk_bytes", run.store.disk.count},
          {"evicted_bytes", stored(run.moved).count},
          {"fetched_bytes", loaded(run.moved).count},
          {"failed_copies", run.moved.failed},
          {"top_movers", runtime::to_json(run.movers)},
          {"variable_bytes", variables.bytes.count},
          {"peak_variable_bytes", variables.peak_bytes.count},
          {"variable_bytes_in_memory", variables.counted.count},
          {"peak_uncounted_variable_bytes", variables.peak_uncounted.count},
          {"refused_variables", variables.refused}};
}

nlohmann::json graphs_json(const FinalFigures& figures) {
  const SwapTableState& table = figures.table;
  return {{"graphs_rewritten", figures.graphs.rewritten},
          {"graphs_left", figures.graphs.left_in_all()},
          {"left_because", figures.graphs.left_because()},
          {"pairs", table.holes},
          {"pairs_used", table.used},
          {"pairs_passing", table.passing},
          {"plan_changes", table.changes},
          {"gave_up_passing", table.gave_up},
          {"late_leaves", table.late_leaves},
          {"recomputed_ops", table.recomputed_ops},
          {"recomputed_bytes", table.recomputed.count}};
}

const std::string& why_there_is_none(const PlanState& plan) {
  return plan.ended.empty() ? plan.no_plan : plan.ended;
}

nlohmann::json plan_json(const PlanState& plan) {
  return {{"planner", plan.planner},
          {"plans", plan.plans},
          {"plans_kept", plan.kept},
          {"pairs_copying", plan.copying},
          {"pairs_recomputed", plan.recomputing},
          {"predicted_peak_bytes", plan.predicted_peak.count},
          {"predicted_step_ns", plan.predicted_step_ns},
          {"measured_peak_bytes", plan.measured_peak.count},
          {"no_plan_because", why_there_is_none(plan)}};
}

std::string describe(const PlanState& plan) {
  if (plan.planner.empty()) return {};
  if (plan.plans == 0) {
    const std::string& why = why_there_is_none(plan);
    return fmt::format("{} made no plan{}{}\n", plan.planner, why.empty() ? "" : ": ", why);
  }
  if (!plan.ended.empty()) {
    return fmt::format("{} made {} plan{}, none of which is followed any more: {}\n", plan.planner,
                       plan.plans, plan.plans == 1 ? "" : "s", plan.ended);
  }
  return fmt::format(
      "{} made {} plan{}, by the last of which {} pairs copy; predicted peak {}, measured {}\n",
      plan.planner, plan.plans, plan.plans == 1 ? "" : "s", plan.copying,
      to_string(plan.predicted_peak),
      plan.measured_peak.count == 0 ? "not yet" : to_string(plan.measured_peak));
}

std::string describe(const VariablesUsage& variables) {
  std::string text;
  if (variables.peak_uncounted.count != 0) {
    text += fmt::format(
        "up to {} of variables, which the peak does not count, lay in memory while an op was given "
        "many at once, such as to save a checkpoint\n",
        to_string(variables.peak_uncounted));
  }
  if (variables.refused != 0) {
    text += fmt::format("{} times a variable was to leave memory and stayed: {}\n",
                        variables.refused, variables.refusal);
  }
  return text;
}

std::string describe(const SwapTableState& table) {
  if (table.recomputed_ops == 0) return {};
  return fmt::format("{} ops ran again, in place of swapping {}\n", table.recomputed_ops,
                     to_string(table.recomputed));
}

}  // namespace

std::string describe(const std::map<std::string, LeftGraphs>& left) {
  constexpr std::size_t kMostReasons = 5;  // texts that name a node differ from graph to graph
  std::string text;
  std::size_t reasons = 0;
  for (const auto& [reason, graphs] : left) {
    if (reason == kNothingWaits || reason == kHasPairs) continue;
    if (++reasons > kMostReasons) {
      return text + "left_because of the statistics has the other reasons\n";
    }
    std::string which;
    if (!graphs.sample.empty()) {
      which = (graphs.count == 1 ? " with " : ", of which the first has ") + graphs.sample;
    }
    text += fmt::format("no activation leaves in {} graph{}{}: {}\n", graphs.count,
                        graphs.count == 1 ? "" : "s", which, reason);
  }
  return text;
}

std::string with_our_name(std::string_view lines) {
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text += fmt::format("spillway: {}", lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return text;
}

std::string to_notes(const FinalFigures& figures) {
  return describe(figures.graphs.left) + describe(figures.variables) + describe(figures.table) +
         describe(figures.plan);
}

std::string to_json(const FinalFigures& figures) {
  nlohmann::json all{{"mode", runtime::to_string(figures.mode)},
                     {"stall_ns", figures.run.stall},
                     {"blocked_ns", figures.run.blocked},
                     {"steps", figures.run.steps.steps},
                     {"last_step_ns", figures.run.steps.last_ns},
                     {"last_step_moved_bytes", figures.run.steps.moved_in_last.count},
                     {"elapsed_ns", figures.elapsed}};
  all.update(memory_json(figures.run, figures.variables));
  all.update(graphs_json(figures));
  all.update(plan_json(figures.plan));
  return all.dump(2);
}

std::string to_summary(const FinalFigures& figures) {
  const MemoryUsage& memory = figures.run.memory;
  const SwapTableState& table = figures.table;
  const std::string text = fmt::format(
      "spillway: peak {} of {}; {} graphs rewritten with {} pairs, {} used, {} of them passing; {} "
      "swapped out, {} swapped in; up to {} of variables in the store; {} allocations waited, {} "
      "failed\n",
      to_string(memory.peak_held), to_string(memory.budget), figures.graphs.rewritten, table.holes,
      table.used, table.passing, to_string(stored(figures.run.moved)),
      to_string(loaded(figures.run.moved)), to_string(figures.variables.peak_bytes), memory.waits,
      memory.failures);
  return text + with_our_name(to_notes(figures));
}

}  // namespace spillway::tf
