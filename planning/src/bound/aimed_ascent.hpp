// SPDX-License-Identifier: Apache-2.0
// Subgradient steps that aim at a value: as far as would reach it, were the function linear. After
// some turns without a better bound the next ones start from the best prices and aim lower.
//
// Source: B. T. Polyak, "Minimization of unsmooth functionals", USSR Computational Mathematics and
// Mathematical Physics 9(3), 1969; keeping a share of the last direction after P. M. Camerini,
// L. Fratta, F. Maffioli, "On improving relaxation methods by modified gradient techniques",
// Mathematical Programming Study 3, 1975.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::bound {

struct Aim {
  int patience = 0;  ///< turns without a better bound until the next ones aim lower
  double first = 0;  ///< beyond the best so far, ns
};

/// Leaves the best prices found within so many turns in the problem, which has
///
///     double evaluate();          // the bound at the prices of now, ns; kNever: not ours to say
///     double best() const;        // of the prices kept
///     void keep(double value);    // the prices of now are the best so far
///     void start_over();          // from the best prices, without a direction
///     bool move(double missing);  // by as much as would gain so many ns; false: nowhere to go
template <class Problem>
void ascend_aiming(Problem& problem, int turns, const Aim& aim) {
  constexpr double kLastAim = 1e-4;  // of the first one
  double ahead = aim.first;
  int idle = 0;
  for (int turn = 0; turn < turns && ahead > kLastAim * aim.first; ++turn) {
    const double value = problem.evaluate();
    if (value == kNever) return;
    if (value > problem.best() * (1 + 1e-4) + 1) idle = -1;
    if (value > problem.best()) problem.keep(value);
    if (++idle > aim.patience) {
      ahead /= 2;
      idle = 0;
      problem.start_over();
    } else if (!problem.move(problem.best() + ahead - value)) {
      return;
    }
  }
}

/// Turns the direction towards the gradient, but never below a price of zero; its length squared.
/// `price(i)` goes with `gradient[i]`.
template <class PriceAt>
double deflect(std::vector<double>& direction, const std::vector<double>& gradient,
               const PriceAt& price) {
  constexpr double kDeflection = 0.6;  // how much of the last direction is kept
  double squared = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const bool at_zero = price(i) <= 0;
    direction[i] =
        (at_zero ? std::max(gradient[i], 0.0) : gradient[i]) + kDeflection * direction[i];
    if (at_zero) direction[i] = std::max(direction[i], 0.0);
    squared += direction[i] * direction[i];
  }
  return squared;
}

}  // namespace spillway::planning::bound
