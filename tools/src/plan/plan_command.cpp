// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_command.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "machine/machine_lookup.hpp"
#include "plan/planner_run.hpp"
#include "plan/trace_events.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tools {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) {
    throw UserError(
        fmt::format("{} cannot be written: {}. Name another file.", path, std::strerror(errno)));
  }
}

/// The plan says of itself what it was made of.
void note_origin(Plan& plan, const PlanningRequest& request, const PlanningInputs& inputs) {
  plan.trace = request.files.front();
  if (request.machine) plan.machine = kept_name(*request.machine);
  plan.durations = inputs.durations.are;
  if (inputs.durations.are == Durations::kRecorded) plan.recorded_on = inputs.trace.machine;
  plan.workspace_margin = inputs.budgets.margin;
}

/// Without a plan a step has as much of the device as it wants, unless a flag says otherwise.
PlanningInputs unplanned_inputs(const PlanningRequest& request) {
  constexpr Bytes kUnlimited{std::uint64_t{1} << 62};
  PlanningInputs inputs = read_inputs(request, request.files.front());
  if (request.device_budgets.empty()) inputs.budgets.stated[Tier::kDevice] = kUnlimited;
  return inputs;
}

}  // namespace

std::variant<PlanAnswer, NoPlanAnswer> plan_step(const PlanningRequest& request) {
  PlanningInputs inputs = read_inputs(request, request.files.front());
  const planning::Problem problem = inputs.problem();
  ProgressLine progress;
  auto outcome = run_planner(planning::planner_named(request.planner), problem, request, progress);
  if (const auto* infeasible = std::get_if<planning::Infeasible>(&outcome)) {
    planning::Infeasible reason = inputs.budgets.about_stated(*infeasible);
    return NoPlanAnswer{std::move(inputs), std::move(reason)};
  }
  auto& step = std::get<PlannedStep>(outcome);
  note_origin(step.plan, request, inputs);
  if (request.output_path) write_plan(step.plan, *request.output_path);
  planning::LowerBound bound = planning::lower_bound(planning::StepModel(problem));
  return PlanAnswer{.inputs = std::move(inputs),
                    .planner = step.plan.planner,
                    .actions = step.plan.actions.size(),
                    .report = std::move(step.report),
                    .bound = bound,
                    .written_to = request.output_path};
}

std::variant<SimulationAnswer, FailureAnswer> simulate_step(const PlanningRequest& request) {
  Plan plan;
  if (request.plan_path) plan = read_plan(*request.plan_path);
  PlanningInputs inputs = request.plan_path
                              ? read_planned_inputs(request, plan, request.files.front())
                              : unplanned_inputs(request);
  if (!request.plan_path) plan.structure = structure_hash(inputs.trace);
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
  if (auto* failure = std::get_if<planning::SimulationFailure>(&outcome)) {
    return FailureAnswer{std::move(inputs), std::move(*failure)};
  }
  auto& report = std::get<planning::SimulationReport>(outcome);
  if (request.perfetto_path) {
    write_text(*request.perfetto_path, trace_events(report, inputs.trace));
  }
  std::optional<planning::LowerBound> bound;
  if (request.plan_path) bound = planning::lower_bound(planning::StepModel(problem));
  return SimulationAnswer{.inputs = std::move(inputs),
                          .planner = plan.planner,
                          .report = std::move(report),
                          .timeline = request.timeline,
                          .bound = bound};
}

}  // namespace spillway::tools
