// SPDX-License-Identifier: Apache-2.0
// Looks for the settings of a pass (sweep.hpp) that give the shortest step.
//
// First a fixed table of settings that differ in what decides most, the price of the links; then
// random changes of the best so far, smaller ones as time goes by. A plan's worth is what the
// simulator says, or, for traces too long to simulate often, the pass's own estimate.
//
// **Amount of work.** A pass over a million touches takes most of a second, one over a hundred no
// time; so the number of passes and simulations follows from the number of touches, and the clock
// only ends a search early. Without a clock the result is the same on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "pass/sweep.hpp"
#include "search/random_numbers.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/planning/sim/simulator.hpp"

namespace spillway::planning {

/// A trace longer than this is planned by one pass, and not simulated while planning.
inline constexpr Row kMostSimulatedTouches = 150'000;

struct Candidate {
  Plan plan;
  Draft draft;
  SweepSettings settings;
  double step_ns = 0;
};

/// The settings that are tried where no other fits: a pass decides greedily, so it may fit into
/// less room and not into more, or fill the host with what could be made again. Those that fit most
/// often first.
std::vector<SweepSettings> settings_for_less_room(const StepModel& model,
                                                  const SweepSettings& base);

class SettingsSearch {
 public:
  SettingsSearch(const Problem& problem, const StepModel& model, Simulator& simulator,
                 const PlanningContext& context, std::string planner);

  /// Tries the settings and those around them; the best plan found, if any fits.
  std::optional<Candidate> run(const SweepSettings& base, bool search);

  /// The simulated step of a plan; nothing if it fails.
  [[nodiscard]] std::optional<double> measure(const Plan& plan,
                                              const SimulationOptions& options = {});
  /// Returns the step in the long run of a plan that takes `most` nanoseconds or less. For one that
  /// takes longer, and while `estimates()`, it returns what `measure` says.
  [[nodiscard]] std::optional<double> settled(const Plan& plan, double most = kNever);
  [[nodiscard]] bool time_is_up() const;
  /// Whether a candidate's step is the pass's own estimate.
  [[nodiscard]] bool estimates() const { return !simulate_; }
  /// Tells who waits how far what is being done is: by `work`, from 0 to 1, or by the time limit.
  void tell(double work, std::string_view doing) const;
  /// Whether a step is so near the lower bound that no search is worth its while.
  [[nodiscard]] bool good_enough(double step_ns) const { return step_ns <= goal_ns_; }

 private:
  bool consider(const SweepSettings& settings, std::optional<Candidate>& best);
  SweepSettings vary(const SweepSettings& settings, double size);

  const Problem& problem_;
  const StepModel& model_;
  Simulator& simulator_;
  const PlanningContext& context_;
  std::string planner_;
  TimeNs began_;
  int passes_;  // at most, in all
  int passes_left_;
  int simulations_left_;
  bool simulate_;
  double goal_ns_ = 0;
  std::vector<std::uint64_t> stay_up_to_;  // bytes; one for each share of the room
  RandomNumbers random_;
};

}  // namespace spillway::planning
