// SPDX-License-Identifier: Apache-2.0
#include "corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cost/floor.hpp"
#include "planner/planners.hpp"
#include "spillway/base/processor_clock.hpp"
#include "spillway/plan/validator.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/cost/roofline.hpp"
#include "spillway/planning/cost/step_model.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/trace/trace_io.hpp"
#include "training_steps.hpp"

namespace spillway::planning {
namespace {

// Machines of three generations: the faster the arithmetic beside the link, the dearer a copy.
constexpr std::array kMachines{"titan-x-maxwell", "v100-pcie", "a100", "h200", "gh200"};

CorpusStep recorded(const std::string& source_tree, std::string family, std::string name) {
  const std::string path =
      source_tree + "/benchmarks/paper_tables/recordings/" + name + ".json.zst";
  return {std::move(family), std::move(name), [path] { return read_trace(path); }};
}

CorpusStep generated(std::string family, std::string name, const NetworkShape& shape) {
  return {std::move(family), std::move(name), [shape] { return TrainingStep(shape).build(); }};
}

}  // namespace

std::vector<CorpusStep> corpus_steps(const std::string& source_tree) {
  std::vector<CorpusStep> steps;
  const auto add = [&](std::string family, std::string name) {
    steps.push_back(recorded(source_tree, std::move(family), std::move(name)));
  };
  add("alexnet", "alexnet-batch64");
  add("vgg", "vgg-depth16-batch16");
  add("vgg", "vgg-depth19-batch8");
  add("googlenet", "googlenet-batch16");
  add("inception", "inception_v3-batch16");
  add("resnet", "resnet-depth50-batch16");
  add("resnet", "resnet-depth101-batch16");
  add("resnet", "resnet-depth152-batch16");
  add("wide resnet", "wide_resnet-widen1-batch16");
  add("wide resnet", "wide_resnet-widen8-batch16");
  add("unet", "unet3d-batch1-resolution64");
  add("lstm", "lstm_language_model-layers1-batch16");
  add("lstm", "lstm_language_model-layers4-batch8");
  for (const std::size_t layers : std::array<std::size_t, 3>{20, 60, 150}) {
    steps.push_back({"layers with Adam", fmt::format("layered-{}", layers),
                     [layers] { return testing::layered_step(layers); }});
  }
  steps.push_back(generated("activations", "activations-200",
                            {.seed = 21, .layers = 200, .middle_dies = true}));
  steps.push_back(generated("activations", "activations-300-saved",
                            {.seed = 22, .layers = 300, .middle_dies = false}));
  steps.push_back(
      generated("weights", "weights-120", {.seed = 23, .layers = 120, .weight_bytes = 1'500'000}));
  steps.push_back(
      generated("weights", "weights-250",
                {.seed = 24, .layers = 250, .weight_bytes = 4'000'000, .heavy_ns = 4e6}));
  steps.push_back(generated("no optimizer state", "plain-250",
                            {.seed = 25, .layers = 250, .optimizer_state = false}));
  steps.push_back(generated("light ops", "light-200",
                            {.seed = 26, .layers = 200, .heavy_ns = 2e5, .light_ns = 1e5}));
  return steps;
}

std::vector<CorpusRow> corpus_rows(std::size_t steps) {
  std::vector<CorpusRow> rows;
  for (std::size_t step = 0; step < steps; ++step) {
    for (const std::size_t other : {std::size_t{0}, std::size_t{2}}) {
      rows.push_back({step, kMachines[(step + other) % kMachines.size()]});
    }
  }
  return rows;
}

std::optional<double> CorpusCase::best_other_ns() const {
  std::optional<double> best;
  for (const CorpusResult& other : others) {
    if (other.step_ns && (!best || *other.step_ns < *best)) best = other.step_ns;
  }
  return best;
}

std::optional<double> judged_step_ns(const Problem& problem, const Plan& plan, std::string& flaw) {
  if (const auto found = validate(plan, problem.trace, problem.budgets)) {
    flaw = fmt::format("{}: {}", plan.planner, found->text);
    return std::nullopt;
  }
  constexpr std::uint32_t kSteps = 8;
  const SimulationOutcome outcome = simulate(problem, plan, {.steps = kSteps});
  if (const auto* failure = std::get_if<SimulationFailure>(&outcome)) {
    flaw = fmt::format("{}: {}", plan.planner, failure->reason);
    return std::nullopt;
  }
  return static_cast<double>(std::get<SimulationReport>(outcome).step_ns);
}

CorpusProblem::CorpusProblem(const CorpusStep& step, const Machine& on) : machine(on) {
  trace = timed_on(step.make(), machine);
  peak = peak_bytes(trace);
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kHost] = kGiB * 1024;
  least = Bytes{floor_of(StepModel(problem)).bytes};
  problem.budgets[Tier::kDevice] = least;
  PlanningContext context;
  context.time_limit_ns = 0;
  const Planner& planner = hybrid_planner();
  const PlanOutcome outcome = planner.plan(problem, Options(planner.options()), context);
  if (const auto* answer = std::get_if<Infeasible>(&outcome); answer && answer->smallest_budget) {
    least = *answer->smallest_budget;
  }
}

Problem CorpusProblem::at(double share) const {
  constexpr double kAboveLeast = 1.02;
  const double low = kAboveLeast * static_cast<double>(least.count);
  const double high = std::max(low, static_cast<double>(peak.count));
  Problem problem{trace, machine, {}};
  problem.budgets[Tier::kHost] = kGiB * 1024;
  problem.budgets[Tier::kDevice] = Bytes{static_cast<std::uint64_t>(low + share * (high - low))};
  return problem;
}

CorpusCase run_case(const Problem& problem, TimeNs limit_ns, std::vector<std::string>& flaws) {
  CorpusCase result;
  result.budgets = problem.budgets;
  const LowerBound bound = lower_bound(StepModel(problem));
  result.compute_ns = static_cast<double>(bound.compute_ns);
  result.bound_ns = static_cast<double>(bound.step_ns);
  std::vector<Plan> seeds;
  const auto run = [&](const Planner& planner, std::span<const Plan> from, bool borrow = true) {
    CorpusResult reached{.planner = std::string(planner.name()), .step_ns = {}};
    PlanningContext context;
    context.now = processor_time;
    context.time_limit_ns = limit_ns;
    context.seeds = from;
    const TimeNs begin = processor_time();
    Options options(planner.options());
    if (!borrow) options.set("borrow", OptionValue(false));
    const PlanOutcome outcome = planner.plan(problem, options, context);
    constexpr double kNsPerSecond = 1e9;
    reached.processor_seconds = static_cast<double>(processor_time() - begin) / kNsPerSecond;
    const auto* plan = std::get_if<Plan>(&outcome);
    if (plan == nullptr) return reached;
    std::string flaw;
    reached.step_ns = judged_step_ns(problem, *plan, flaw);
    if (!reached.step_ns) flaws.push_back(flaw);
    if (&planner != &hybrid_planner()) seeds.push_back(*plan);
    return reached;
  };
  for (const Planner* planner : planners()) {
    if (planner != &hybrid_planner()) result.others.push_back(run(*planner, {}));
  }
  result.hybrid = run(hybrid_planner(), {});
  result.alone = run(hybrid_planner(), {}, false);
  result.seeded = run(hybrid_planner(), seeds);
  return result;
}

}  // namespace spillway::planning
