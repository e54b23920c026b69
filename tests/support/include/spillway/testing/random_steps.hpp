// SPDX-License-Identifier: Apache-2.0
// Random steps and random plans for them, small and of every shape; and large steps of the shape
// that training has. All are the same for the same seed.
#pragma once

#include <cstddef>
#include <random>

#include "spillway/plan/plan.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::testing {

/// A valid step: parameters, temporaries that live across some ops, storages that go on in the next
/// step, workspace, ops that may be run again.
Trace random_step(std::mt19937& random, std::size_t ops);

/// The means of a random plan. At least one of host and disk.
struct PlanMeans {
  bool host = true;
  bool disk = true;
  bool recomputations = true;
};

/// A plan that is right where budgets are ample: it evicts, demotes, fetches, forgets, drops,
/// recomputations and waits at random.
Plan random_plan(std::mt19937& random, const Trace& trace, const PlanMeans& means);

/// Forward, backward and update of `layers` layers of about 25 ops each: convolution, norm and
/// activation in turn, with durations, sizes, names, modules and source lines as recordings have.
Trace layered_step(std::size_t layers);

}  // namespace spillway::testing
