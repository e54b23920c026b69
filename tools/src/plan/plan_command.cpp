// SPDX-License-Identifier: Apache-2.0
// `spillway plan` and `spillway simulate`: one plan and what comes of it.
#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "machine/machine_lookup.hpp"
#include "plan/planner_run.hpp"
#include "plan/planning_commands.hpp"
#include "plan/planning_inputs.hpp"
#include "plan/simulation_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/registry.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

std::string bound_line(const planning::LowerBound& bound, TimeNs step) {
  const double share = bound.step_ns == 0 ? 0
                                          : static_cast<double>(step - bound.step_ns) /
                                                static_cast<double>(bound.step_ns);
  std::string line = fmt::format("bound         {}: no plan is faster; this one is {} above",
                                 short_time(bound.step_ns), short_percent(share));
  if (const auto cause = bound.binds) {
    line += fmt::format("\n              what binds: {}", to_string(*cause));
  }
  return line + "\n";
}

std::string planner_line(const Plan& plan) {
  constexpr std::size_t kWidth = 66;
  return fmt::format("planner       {}\n",
                     plan.planner.empty() ? "none" : printable(plan.planner, kWidth));
}

std::string whereabouts_line(const PlanningRequest& request) {
  if (!request.output_path) return "plan          not kept: -o FILE writes it\n";
  // A path is printed whole, to be copied.
  return fmt::format("plan          written to {}\n", *request.output_path);
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw UserError(fmt::format("{} cannot be written.", path));
}

}  // namespace

Answer plan_answer(const PlanningRequest& request) {
  const PlanningInputs inputs = read_inputs(request, request.files.front());
  const planning::Problem problem = inputs.problem();
  const planning::Planner& planner = planning::planner_named(request.planner);
  ProgressLine progress;
  auto outcome = run_planner(planner, problem, request, progress);
  if (const auto* infeasible = std::get_if<planning::Infeasible>(&outcome)) {
    const planning::Infeasible answer = as_stated(*infeasible, inputs);
    return {request.json ? json_text(infeasible_json(answer))
                         : infeasible_lines(answer, inputs.trace, inputs.stated_budgets()) +
                               margin_line(inputs),
            kNoPlanFits};
  }
  auto& step = std::get<PlannedStep>(outcome);
  step.plan.trace = request.files.front();
  if (request.machine) step.plan.machine = kept_name(*request.machine);
  step.plan.durations = inputs.durations.are;
  if (inputs.durations.are == Durations::kRecorded) step.plan.recorded_on = inputs.trace.machine;
  step.plan.workspace_margin = inputs.margin;
  if (request.output_path) write_plan(step.plan, *request.output_path);
  const planning::LowerBound bound = planning::lower_bound(planning::StepModel(problem));
  if (!request.json) {
    return {planner_line(step.plan) + heading(inputs) + report_lines(step.report, problem) +
            bound_line(bound, step.report.step_ns) + whereabouts_line(request)};
  }
  Json json = report_json(step.report, false);
  json["planner"] = step.plan.planner;
  add_inputs(json, inputs);
  json["budgets"] = budgets_json(problem.budgets);
  json["bound_ns"] = bound.step_ns;
  json["bound"] = bound_json(bound);
  json["actions"] = step.plan.actions.size();
  return {json_text(json)};
}

Answer simulate_answer(const PlanningRequest& request) {
  Plan plan;
  if (request.plan_path) plan = read_plan(*request.plan_path);
  const std::string& trace = request.files.front();
  PlanningInputs inputs =
      request.plan_path ? read_planned_inputs(request, plan, trace) : read_inputs(request, trace);
  if (!request.plan_path) {
    plan.structure = structure_hash(inputs.trace);
    constexpr Bytes kUnlimited{std::uint64_t{1} << 62};
    if (request.device_budgets.empty()) inputs.budgets[Tier::kDevice] = kUnlimited;
  }
  const planning::Problem problem = inputs.problem();
  if (const auto flaw = validate(plan, inputs.trace, problem.budgets);
      flaw && flaw->flaw <= PlanFlaw::kPlacedNowhere) {
    throw UserError(
        fmt::format("plan {}: {}.", request.plan_path.value_or("without actions"), flaw->text));
  }
  const bool timeline = request.timeline || request.perfetto_path;
  planning::SimulationOutcome outcome;
  ProgressLine(1, "simulating").during(request.plan_path ? "the plan" : "the step", [&] {
    outcome = planning::simulate(problem, plan, {.timeline = timeline});
  });
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
    return {
        request.json ? json_text(failure_json(*failure)) : failure_lines(*failure, inputs.trace),
        kNoPlanFits};
  }
  const auto& report = std::get<planning::SimulationReport>(outcome);
  if (request.perfetto_path) {
    write_text(*request.perfetto_path, perfetto_text(report, inputs.trace));
  }
  // Without a plan and its budgets nothing binds but computing.
  std::optional<planning::LowerBound> bound;
  if (request.plan_path) bound = planning::lower_bound(planning::StepModel(problem));
  if (!request.json) {
    return {planner_line(plan) + heading(inputs) + report_lines(report, problem) +
            (bound ? bound_line(*bound, report.step_ns) : std::string())};
  }
  Json json = report_json(report, request.timeline);
  json["budgets"] = budgets_json(problem.budgets);
  add_inputs(json, inputs);
  if (bound) {
    json["bound_ns"] = bound->step_ns;
    json["bound"] = bound_json(*bound);
  }
  return {json_text(json)};
}

Answer planning_answer(const PlanningRequest& request) {
  switch (request.command) {
    case PlanningRequest::Command::kPlan:
      return plan_answer(request);
    case PlanningRequest::Command::kSimulate:
      return simulate_answer(request);
    case PlanningRequest::Command::kCompare:
      return compare_answer(request);
    case PlanningRequest::Command::kExplain:
      return explain_answer(request);
    default:
      return what_if_answer(request);
  }
}

}  // namespace spillway::tools
