// SPDX-License-Identifier: Apache-2.0
// Measures runs of graphs with pairs, has them planned, and has the table follow the plan; again
// after some steps.
//
//     run 1, 2   everything copies                        the profiler is started
//     run 3      is measured
//     run 4      planned; the table follows               and so on after 4, 8, 16, ... more runs
//
// The last of them say what the plan needs: three are measured, since steps under one plan differ.
//
// A run whose tensors are smaller than they were before is of a smaller batch, for which nobody
// need plan: another is measured in its place, up to eight times.
//
// A plan keeps to 90 % of the budget, less what the variables in the store want of it: an op that
// finds one away waits for it, while tensors of pairs come and go beside computing. Where no plan
// keeps to so little, variables have half the room, and so on down to none.
//
// What an op needs was measured beside others that ran at the same time. If there is no plan with
// so much, nor a former one, ops count as if each had waited for those.
//
// Other choices make another order of execution, which was not measured: where the measured peak
// was above the predicted one by some bytes, and above 95 % of the budget, the next plan keeps to
// so much less. Where tensors that were to stay had to leave, it keeps to 5 % of the budget less.
// Where a planner has no plan the table goes by what it measures itself, and why is kept.
//
// A planner runs in the thread that begins the run, which waits for it: within the time limit of
// its search. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pair_trace.hpp"
#include "plan_cache.hpp"
#include "planner_choice.hpp"
#include "run_profile.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/planning/plan_source.hpp"
#include "swap_table.hpp"

namespace spillway::tf {

/// Bytes per second out of memory and into it.
struct CopyRates {
  double out = 0;
  double in = 0;
};

struct PlanLoopOptions {
  PlannerChoice choice;
  Bytes budget{};
  PlanCache cache;
  std::function<CopyRates()> rates;
  std::function<Bytes()> variables;  ///< bytes of the budget that variables in the store want
  std::function<TimeNs()> now;       ///< of a monotonic clock
  /// Why no run can be measured now, for people; empty: it can. Not set: it always can.
  std::function<std::string()> obstacle{};
};

/// The plan of the graph that was planned last.
struct PlanState {
  std::string planner;  ///< with its options; empty where none decides
  std::uint64_t plans = 0;
  std::uint64_t kept = 0;         ///< graphs that began with a plan of a former run
  std::uint64_t copying = 0;      ///< holes that leave by the plan
  std::uint64_t recomputing = 0;  ///< tensors that are computed again by it
  Bytes predicted_peak{};  ///< of the last plan under which a run was measured, else of the last
  Bytes measured_peak{};   ///< the most of the runs measured under it; 0: none was
  TimeNs predicted_step_ns = 0;
  std::string no_plan;   ///< why there is none
  std::string ended;     ///< why none is followed any more; empty: one is
  std::string not_kept;  ///< a file that a graph's latest plan could not be written to, and why
};

class PlanLoop {
 public:
  PlanLoop(PlanLoopOptions options, RunProfiler& profiler, SwapTable& table);

  /// Whether it plans for a graph that is to be rewritten now. If not, the table decides on it.
  [[nodiscard]] bool plans();

  /// A graph whose first hole's number the table gave out.
  void add_graph(PairedGraph graph);
  /// A run of the graph, by the table's number, has begun.
  void on_run(std::size_t graph);

  [[nodiscard]] PlanState state() const;
  /// Its name, with its options. Waits for no plan that is being made.
  [[nodiscard]] const std::string& planner() const { return planner_; }

  /// No plan is being made until after_fork().
  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  static constexpr std::uint64_t kFirstPause = 4;

  struct Planned {
    PairedGraph graph;
    std::uint64_t runs = 0;
    std::uint64_t measure_at = 2;       ///< the run in which the profiler is started
    std::uint64_t pause = kFirstPause;  ///< runs until the next plan
    std::uint64_t patience = 16;        ///< runs of other graphs while this one is measured
    double share = 0.9;                 ///< of the budget, that plans keep to
    std::size_t part = 0;               ///< of the room for variables, that its last plan left
    std::uint64_t late_leaves = 0;      ///< of the graph, when it was last measured
    std::uint32_t smaller = 0;          ///< runs in a row that were of a smaller batch
    std::optional<Bytes> predicted{};   ///< peak of its last plan
    std::uint32_t measured = 0;         ///< runs under that plan
    Bytes peak{};                       ///< the most of those
    bool limited = false;               ///< that plan, by limit_needs()
    bool kept = false;                  ///< it began with a plan of a former run
    std::vector<HoleDecision> decisions{};
    std::string not_kept{};

    /// Whether it has one that needs no op to wait for another.
    [[nodiscard]] bool has_full_plan() const { return predicted && !limited; }
  };

  void end_planning_locked();
  void give_up_measuring_locked(Planned& planned);
  void measured_locked(Planned& planned, const RunProfile& run);
  void note_peak_locked(Planned& planned, Bytes peak);
  void say_no_plan_locked(Planned& planned, std::string reason);
  [[nodiscard]] bool is_of_smaller_batch(const RunProfile& run) const;
  void learn_locked(Planned& planned);
  void follow_locked(Planned& planned, const RunProfile& run);
  /// Within the share of the budget that `planned` keeps to. `budgets`: what there was a plan for.
  /// The step's needs are limited to that if there is no plan else, and none to follow on.
  [[nodiscard]] std::optional<planning::StepActions> plan(const PairTrace& step, TimeNs duration,
                                                          const Machine& machine, Planned& planned,
                                                          Budgets& budgets) const;
  /// Within the budget, with room for as much of the variables as there is a plan for. `part`: of
  /// the room, that is tried first, and that was left. `limited`: needs are, to what is tried.
  [[nodiscard]] std::optional<planning::StepActions> plan_with_room(
      const PairTrace& step, planning::PlanningContext context, const Machine& machine,
      Budgets& budgets, std::size_t& part, bool limited) const;
  [[nodiscard]] Machine machine() const;

  PlanLoopOptions options_;
  const std::string planner_;
  RunProfiler& profiler_;
  SwapTable& table_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Planned> graphs_;
  std::optional<std::size_t> measured_;  ///< the graph for which the profiler runs
  std::uint64_t runs_of_others_ = 0;     ///< meanwhile
  PlanState state_;
};

}  // namespace spillway::tf
