// SPDX-License-Identifier: Apache-2.0
#include "plan/planner_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/processor_clock.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/plan_source.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tools {
namespace {

std::vector<Plan> plans_of_others(const planning::Planner& planner,
                                  const planning::Problem& problem, ProgressLine& progress) {
  std::vector<Plan> plans;
  for (const planning::Planner* other : planning::planners()) {
    if (other == &planner) continue;
    progress.show(0, fmt::format("from the plan of {}", other->name()));
    auto outcome = other->plan(problem);
    if (Plan* plan = std::get_if<Plan>(&outcome)) plans.push_back(std::move(*plan));
  }
  return plans;
}

}  // namespace

std::vector<const planning::Planner*> chosen_planners(const PlanningRequest& request) {
  using Command = PlanningRequest::Command;
  std::vector<const planning::Planner*> chosen;
  if (request.command == Command::kPlan || request.command == Command::kWhatIf) {
    chosen.push_back(&planning::planner_named(request.planner));
  }
  if (request.command != Command::kCompare) return chosen;
  for (const std::string& name : request.planners) {
    chosen.push_back(&planning::planner_named(name));
  }
  if (chosen.empty()) chosen.assign(planning::planners().begin(), planning::planners().end());
  return chosen;
}

bool searches(const planning::Planner& planner) { return has_option(planner, "search"); }

bool has_option(const planning::Planner& planner, std::string_view name) {
  const auto fields = planner.options();
  return std::any_of(fields.begin(), fields.end(),
                     [&](const planning::OptionField& field) { return field.name == name; });
}

planning::Options options_for(const planning::Planner& planner, const PlanningRequest& request) {
  planning::Options options(planner.options());
  for (const auto& [name, text] : request.options) {
    if (has_option(planner, name)) options.set(name, std::string_view(text));
  }
  return options;
}

std::variant<PlannedStep, planning::Infeasible> run_planner(const planning::Planner& planner,
                                                            const planning::Problem& problem,
                                                            const PlanningRequest& request,
                                                            ProgressLine& progress) {
  progress.begin(planner.name());
  std::vector<Plan> seeds;
  if (request.seed_all && searches(planner)) seeds = plans_of_others(planner, problem, progress);
  planning::PlanningContext context;
  context.now = processor_time;
  context.time_limit_ns = request.time_limit_ns.value_or(context.time_limit_ns);
  context.seeds = seeds;
  context.progress = [&](double share, std::string_view doing) { progress.show(share, doing); };
  const planning::PlannerSource source(planner, options_for(planner, request), problem.machine,
                                       problem.budgets, context);
  auto outcome = source.actions_for(problem.trace);
  if (auto* infeasible = std::get_if<planning::Infeasible>(&outcome)) return std::move(*infeasible);
  PlannedStep step{std::get<planning::StepActions>(outcome).plan(), {}};
  if (const auto flaw = validate(step.plan, problem.trace, problem.budgets)) {
    throw InternalError(fmt::format("the plan of {} is wrong: {}", planner.name(), flaw->text));
  }
  auto simulated = planning::simulate(problem, step.plan);
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&simulated)) {
    throw InternalError(fmt::format("the plan of {} fails at op {}: {}", planner.name(),
                                    to_value(failure->op), failure->reason));
  }
  step.report = std::get<planning::SimulationReport>(std::move(simulated));
  return step;
}

}  // namespace spillway::tools
