// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/sim/simulator.hpp"

#include "spillway/base/error.hpp"

namespace spillway::planning {

struct Simulator::Prepared {
  Problem problem;
};

Simulator::Simulator(const Problem& problem) : prepared_(new Prepared{problem}) {}
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;
Simulator::~Simulator() = default;

SimulationOutcome Simulator::run(const Plan& /*plan*/, const SimulationOptions& /*options*/) {
  throw InternalError("not simulated yet");
}

SimulationOutcome simulate(const Problem& problem, const Plan& plan,
                           const SimulationOptions& options) {
  return Simulator(problem).run(plan, options);
}

}  // namespace spillway::planning
