// SPDX-License-Identifier: Apache-2.0
#include "plan_loop.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <span>
#include <utility>
#include <variant>

#include "spillway/planning/sim/simulator.hpp"

namespace spillway::tf {
namespace {

// A search takes as long as a few steps, so that with the pauses between plans it is paid back.
constexpr TimeNs kLeastSearch = 20'000'000;
constexpr TimeNs kLongestSearch = 500'000'000;
constexpr TimeNs kStepsToSearch = 4;
// Under one plan steps differ by which ops happen to run beside each other: the peaks of small
// networks by up to 12 %.
constexpr std::uint32_t kRunsToJudge = 3;
// All but the last of them, each after the rest of the run in which measuring began.
constexpr std::uint64_t kRunsToJudgeEarlier = 2 * (kRunsToJudge - 1);
constexpr double kLeastShare = 0.3;
constexpr std::uint64_t kLongestPause = 512;
constexpr std::uint64_t kMostPatience = 4096;
constexpr double kAsLarge = 0.95;
constexpr std::uint32_t kMostSmaller = 8;
constexpr Bytes kPlenty{std::uint64_t{1} << 50};
// Of the room that variables want: all, or one part in so many, or none.
constexpr std::array<std::uint64_t, 5> kPartsOfRoom{1, 2, 4, 8, 0};

planning::PlanningContext context_of(const std::function<TimeNs()>& now, TimeNs step,
                                     std::span<const std::uint32_t> partitions) {
  planning::PlanningContext context;
  context.partitions = partitions;
  context.now = now;
  context.time_limit_ns = std::clamp(step * kStepsToSearch, kLeastSearch, kLongestSearch);
  context.explain = false;
  return context;
}

std::string name_of(const PlannerChoice& choice) {
  const std::string changes = choice.options.changes();
  return std::string(choice.planner->name()) + (changes.empty() ? "" : " " + changes);
}

}  // namespace

PlanLoop::PlanLoop(PlanLoopOptions options, RunProfiler& profiler, SwapTable& table)
    : options_(std::move(options)),
      planner_(name_of(options_.choice)),
      profiler_(profiler),
      table_(table) {
  state_.planner = planner_;
}

bool PlanLoop::plans() {
  std::string obstacle = options_.obstacle ? options_.obstacle() : std::string();
  if (obstacle.empty()) return true;
  const std::lock_guard lock(mutex_);
  state_.no_plan = std::move(obstacle);
  return false;
}

void PlanLoop::add_graph(PairedGraph graph) {
  const std::lock_guard lock(mutex_);
  const std::size_t number = table_.graph_of(graph.first_hole);
  const auto kept = options_.cache.read(graph.signature, graph.first_hole, graph.holes());
  table_.follow(kept);
  if (!kept.empty()) ++state_.kept;
  graphs_[number].kept = !kept.empty();
  graphs_[number].graph = std::move(graph);
}

void PlanLoop::on_run(std::size_t graph) {
  const std::lock_guard lock(mutex_);
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return;
  if (table_.has_given_up()) return end_planning_locked();
  Planned& planned = found->second;
  ++planned.runs;
  if (measured_) {
    if (const auto run = profiler_.take()) {
      measured_locked(graphs_.at(*measured_), *run);
      measured_.reset();
    } else if (*measured_ != graph && ++runs_of_others_ > graphs_.at(*measured_).patience) {
      give_up_measuring_locked(graphs_.at(*measured_));
    }
  }
  if (measured_ || planned.runs < planned.measure_at) return;
  measured_ = graph;
  runs_of_others_ = 0;
  profiler_.start(planned.graph.first_hole, planned.graph.holes());
}

// Everything copies for good.
void PlanLoop::end_planning_locked() {
  measured_.reset();
  state_.copying = 0;
  state_.recomputing = 0;
  state_.ended = "an allocation found no room, and everything copies since";
}

// It runs rarely, or no more. Until it was measured after all, the table decides.
void PlanLoop::give_up_measuring_locked(Planned& planned) {
  measured_.reset();
  planned.patience = std::min(planned.patience * 4, kMostPatience);
  if (!planned.has_full_plan()) table_.measure_instead(planned.graph.first_hole);
}

bool PlanLoop::is_of_smaller_batch(const RunProfile& run) const {
  Bytes seen{};
  Bytes most{};
  for (const ProfiledStay& stay : run.stays) {
    if (stay.back) continue;
    seen += stay.bytes;
    most += table_.largest(stay.hole);
  }
  return static_cast<double>(seen.count) < kAsLarge * static_cast<double>(most.count);
}

void PlanLoop::measured_locked(Planned& planned, const RunProfile& run) {
  if (is_of_smaller_batch(run) && ++planned.smaller <= kMostSmaller) {
    planned.measure_at = planned.runs;
    return;
  }
  planned.smaller = 0;
  if (planned.predicted) note_peak_locked(planned, run.peak());
  if (planned.predicted && planned.measured < kRunsToJudge) {
    planned.measure_at = planned.runs;
    return;
  }
  learn_locked(planned);
  try {
    follow_locked(planned, run);
  } catch (const std::exception& error) {
    say_no_plan_locked(planned, error.what());
  }
  planned.measure_at = planned.runs + planned.pause;
  if (planned.predicted && planned.measured == 0) planned.measure_at -= kRunsToJudgeEarlier;
  planned.pause = std::min(planned.pause * 2, kLongestPause);
}

void PlanLoop::note_peak_locked(Planned& planned, Bytes peak) {
  ++planned.measured;
  planned.peak = std::max(planned.peak, peak);
  state_.predicted_peak = *planned.predicted;
  state_.measured_peak = planned.peak;
}

// A former plan is followed on.
void PlanLoop::say_no_plan_locked(Planned& planned, std::string reason) {
  state_.no_plan = std::move(reason);
  if (!planned.has_full_plan()) table_.measure_instead(planned.graph.first_hole);
}

void PlanLoop::learn_locked(Planned& planned) {
  const std::uint64_t late_leaves = table_.late_leaves(planned.graph.first_hole);
  if (late_leaves != planned.late_leaves) planned.pause = kFirstPause;
  // What ran beside a limited op is in its peak again, and no plan changes that.
  if (planned.has_full_plan()) {
    const Bytes missed = saturating_sub(planned.peak, *planned.predicted);
    const double budget = static_cast<double>(options_.budget.count);
    const bool above = static_cast<double>(planned.peak.count) > 0.95 * budget;
    const bool first = planned.measured == kRunsToJudge;  // later, where no new plan was found
    if (above && first) planned.share -= static_cast<double>(missed.count) / budget;
    if (late_leaves != planned.late_leaves) planned.share -= 0.05;
    planned.share = std::max(planned.share, kLeastShare);
  }
  planned.late_leaves = late_leaves;
}

void PlanLoop::follow_locked(Planned& planned, const RunProfile& run) {
  const PairTrace step = make_pair_trace(run, planned.graph);
  if (step.waits.empty()) {
    say_no_plan_locked(planned, "no tensor outside of loops waits between two ops");
    return;
  }
  Budgets budgets;
  Machine here = machine();
  const auto actions = plan(step, run.duration_ns, here, planned, budgets);
  if (!actions) {
    say_no_plan_locked(planned, "the step does not fit with the planner's choices");
    return;
  }
  planned.decisions.clear();
  state_.copying = 0;
  state_.recomputing = 0;
  for (const HoleChoice& choice : choose(step, run, planned.graph, actions->plan())) {
    planned.decisions.push_back({choice.hole, choice.leaves, choice.due, choice.recomputed});
    if (choice.leaves) ++state_.copying;
    if (choice.recomputed) ++state_.recomputing;
  }
  table_.follow(planned.decisions);
  planned.not_kept =
      options_.cache.write(planned.graph.signature, planned.graph.first_hole, planned.decisions);
  ++state_.plans;
  state_.no_plan.clear();
  // An op that found no room for what ran beside it in this run waits in the next.
  if (planned.limited) budgets[Tier::kDevice] = here.device.capacity.value = kPlenty;
  const planning::Problem problem{step.trace, here, budgets};
  const auto simulated = planning::simulate(problem, actions->plan());
  if (const auto* report = std::get_if<planning::SimulationReport>(&simulated)) {
    planned.predicted = std::min(report->peak[index_of(Tier::kDevice)].bytes, options_.budget);
    planned.measured = 0;
    planned.peak = {};
    if (state_.measured_peak.count == 0) state_.predicted_peak = *planned.predicted;
    state_.predicted_step_ns = report->step_ns;
  }
}

std::optional<planning::StepActions> PlanLoop::plan(const PairTrace& step, TimeNs duration,
                                                    const Machine& machine, Planned& planned,
                                                    Budgets& budgets) const {
  const Bytes device{
      static_cast<std::uint64_t>(static_cast<double>(options_.budget.count) * planned.share)};
  budgets[Tier::kHost] = machine.host_capacity.value;
  const auto attempt = [&](bool limited) {
    budgets[Tier::kDevice] = device;
    auto actions = plan_with_room(step, context_of(options_.now, duration, step.partitions),
                                  machine, budgets, planned.part, limited);
    if (actions) planned.limited = limited;
    return actions;
  };
  auto actions = attempt(false);
  // A former plan is better, unless it did not know either what ops need.
  const bool follows_on = (planned.predicted || planned.kept) && !planned.limited;
  if (!actions && !follows_on) actions = attempt(true);
  return actions;
}

std::optional<planning::StepActions> PlanLoop::plan_with_room(const PairTrace& step,
                                                              planning::PlanningContext context,
                                                              const Machine& machine,
                                                              Budgets& budgets, std::size_t& part,
                                                              bool limited) const {
  const TimeNs until = context.now() + context.time_limit_ns;
  Bytes& device = budgets[Tier::kDevice];
  const Bytes all = device;
  const Bytes wanted = std::min(options_.variables(), all);
  for (std::size_t tried = part; tried < kPartsOfRoom.size(); ++tried) {
    const std::uint64_t divisor = kPartsOfRoom[tried];
    const bool none = divisor == 0;
    if (wanted.count == 0 && !none) continue;
    device = none ? all : all - Bytes{wanted.count / divisor};
    if (device.count == 0) continue;
    std::optional<Trace> fitting;
    if (limited) {
      fitting = step.trace;
      if (!limit_needs(*fitting, device)) continue;
    }
    context.time_limit_ns = std::max<TimeNs>(until - context.now(), 0);
    const planning::PlannerSource source(*options_.choice.planner, options_.choice.options, machine,
                                         budgets, context);
    auto outcome = source.actions_for(fitting ? *fitting : step.trace);
    if (auto* const actions = std::get_if<planning::StepActions>(&outcome)) {
      if (wanted.count != 0) part = tried;  // else variables may come that have not been tried
      return std::move(*actions);
    }
  }
  part = 0;
  return std::nullopt;
}

// The store counts as the host of a device, wherever it keeps its bytes.
Machine PlanLoop::machine() const {
  const CopyRates rates = options_.rates();
  Machine machine;
  machine.name = "this process";
  machine.device.name = "TensorFlow's memory";
  machine.device.capacity.value = options_.budget;
  machine.host_capacity.value = kPlenty;
  machine.page_locked_capacity.value = kPlenty;
  machine.links[index_of(LinkKind::kDeviceToHost)] = Link{.bytes_per_second = rates.out};
  machine.links[index_of(LinkKind::kHostToDevice)] = Link{.bytes_per_second = rates.in};
  return machine;
}

PlanState PlanLoop::state() const {
  const std::lock_guard lock(mutex_);
  PlanState state = state_;
  for (const auto& [number, planned] : graphs_) {
    if (state.not_kept.empty()) state.not_kept = planned.not_kept;
  }
  return state;
}

}  // namespace spillway::tf
