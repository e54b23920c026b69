// SPDX-License-Identifier: Apache-2.0
#include "planner_run.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "planning_inputs.hpp"
#include "quantity_text.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tools {
namespace {

TimeNs clock_ns(clockid_t clock) {
  constexpr TimeNs kNsPerSecond = 1'000'000'000;
  timespec time{};
  ::clock_gettime(clock, &time);
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
}

}  // namespace

TimeNs processor_time() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

ProgressLine::ProgressLine(std::string_view subject)
    : subject_(subject), on_terminal_(::isatty(STDERR_FILENO) == 1) {
  constexpr TimeNs kPatience = 500'000'000;
  next_ = clock_ns(CLOCK_MONOTONIC) + kPatience;
}

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void ProgressLine::show(double share, std::string_view doing) {
  constexpr TimeNs kInterval = 100'000'000;
  if (!on_terminal_ || clock_ns(CLOCK_MONOTONIC) < next_) return;
  next_ = clock_ns(CLOCK_MONOTONIC) + kInterval;
  shown_ = true;
  fmt::print(stderr, "\r\033[Kplanning: {}, {}, {}", subject_, doing, short_percent(share));
}

std::variant<PlannedStep, planning::Infeasible> run_planner(const planning::Planner& planner,
                                                            const planning::Problem& problem,
                                                            const PlanningRequest& request) {
  std::vector<Plan> seeds;
  if (request.seed_all) {
    for (const planning::Planner* other : planning::planners()) {
      if (other == &planner) continue;
      auto outcome = other->plan(problem);
      if (Plan* plan = std::get_if<Plan>(&outcome)) seeds.push_back(std::move(*plan));
    }
  }
  ProgressLine line(planner.name());
  planning::PlanningContext context;
  context.now = processor_time;
  context.time_limit_ns = request.time_limit_ns;
  context.seeds = seeds;
  context.progress = [&line](double share, std::string_view doing) { line.show(share, doing); };
  auto outcome = planner.plan(problem, options_for(planner, request, true), context);
  if (auto* infeasible = std::get_if<planning::Infeasible>(&outcome)) return std::move(*infeasible);
  PlannedStep step{std::get<Plan>(std::move(outcome)), {}};
  auto simulated = planning::simulate(problem, step.plan);
  if (const auto* failure = std::get_if<planning::SimulationFailure>(&simulated)) {
    throw InternalError(fmt::format("the plan of {} fails at op {}: {}", planner.name(),
                                    to_value(failure->op), failure->reason));
  }
  step.report = std::get<planning::SimulationReport>(std::move(simulated));
  return step;
}

}  // namespace spillway::tools
