// SPDX-License-Identifier: Apache-2.0
// Small changes of a draft, one after the other, each kept if the simulated step is no longer for
// it.
//
//     copy in later or earlier     gap  [out ...... in]  ->  [out ... in   ]
//     copy out later or earlier         [out ...... in]  ->  [   out .. in]
//     stay                              [out ...... in]  ->  [            ]
//     leave                             [            ]  ->  [out ...... in]
//     compute again instead of copying, and the reverse
//
// A pass decides gap by gap and never takes back; this does. Changes that make a plan wrong or too
// large are refused by the validator. Worth its while on traces so short that thousands of plans
// can be simulated.
#pragma once

#include <cstdint>

#include "search/random_numbers.hpp"
#include "search/settings_search.hpp"

namespace spillway::planning {

class Refiner {
 public:
  /// `allowed`: what a change may do: its rules, and whether it may compute again, queue copies in
  /// ahead and begin copies out early.
  Refiner(const Problem& problem, const StepModel& model, SettingsSearch& search,
          const SweepSettings& allowed);

  /// Improves the candidate in place, with no more than `turns` changes tried.
  void refine(Candidate& candidate, int turns);

 private:
  bool change(Draft& draft);
  bool change_gap(Draft& draft, Row touch);

  const Problem& problem_;
  const StepModel& model_;
  SettingsSearch& search_;
  bool recompute_, prefetch_, early_out_;
  std::vector<Row> gaps_;
  RandomNumbers random_;
};

}  // namespace spillway::planning
