// SPDX-License-Identifier: Apache-2.0
// Steps, machines and budgets on which planners are compared: recorded networks
// (benchmarks/paper_tables/ recordings), generated steps, and for each pair of step and machine
// budgets from just above the least that hybrid can plan for to 90 % of the peak.
//
// A case can be named by its number, so that a sample of the corpus is the same on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

struct CorpusStep {
  std::string family;
  std::string name;
  std::function<Trace()> make;
};

/// Every step of the corpus; `source_tree` is the checkout, for the recordings.
std::vector<CorpusStep> corpus_steps(const std::string& source_tree);

/// One step on one machine, with the budgets to be tried.
struct CorpusRow {
  std::size_t step = 0;  ///< of corpus_steps
  std::string machine;   ///< of machines/
};

std::vector<CorpusRow> corpus_rows(std::size_t steps);

/// Shares of the way from the least feasible budget to the peak; the first is 2 % above the least.
inline constexpr std::array<double, 5> kCorpusShares{0.0, 0.15, 0.35, 0.6, 0.9};

/// The results of one planner.
struct CorpusResult {
  std::string planner;
  std::optional<double> step_ns;  ///< nothing: it has no plan
  double processor_seconds = 0;
};

struct CorpusCase {
  Budgets budgets;
  double compute_ns = 0;
  double bound_ns = 0;
  std::vector<CorpusResult> others;  ///< by registry, without hybrid
  CorpusResult hybrid;               ///< without seeds
  CorpusResult alone;                ///< without the others' plans as candidates, either
  CorpusResult seeded;               ///< from all others' plans
  /// The shortest step of the others, if any has a plan.
  [[nodiscard]] std::optional<double> best_other_ns() const;
};

/// The judgement of a plan: checked by the validator, then simulated until its step repeats.
/// Nothing if the plan is wrong, which no planner's may be; the reason goes to `flaw`.
std::optional<double> judged_step_ns(const Problem& problem, const Plan& plan, std::string& flaw);

/// The step on the machine: durations, and the host with plenty of room.
struct CorpusProblem {
  CorpusProblem(const CorpusStep& step, const Machine& machine);
  [[nodiscard]] Problem at(double share) const;

  Machine machine;
  Trace trace;
  Bytes least{};  ///< device budget that hybrid has a plan for
  Bytes peak{};
};

/// Plans one case with every planner, each search ending after `limit_ns` of the processor's time.
/// `flaws` learns of plans that the validator refuses.
CorpusCase run_case(const Problem& problem, TimeNs limit_ns, std::vector<std::string>& flaws);

}  // namespace spillway::planning
