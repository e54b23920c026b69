// SPDX-License-Identifier: Apache-2.0
// Plans of graphs, kept in files for later runs of the same program.
//
// A file is named after the graph's signature and whatever else the plan depends on. What a plan
// was made for may have changed all the same (other sizes of a batch that the graph leaves open):
// it is a first guess, which measuring corrects. So a file that is missing, unreadable or of
// another graph is no plan, and one that cannot be written is none the next time, of which the
// writer hears. Thread-safe: a file appears complete or not at all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "swap_table.hpp"

namespace spillway::tf {

class PlanCache {
 public:
  /// `directory`: empty keeps nothing. `depends_on`: what else tells plans apart, such as the
  /// planner and the budget.
  PlanCache(std::string directory, std::string_view depends_on);

  /// Decisions for a graph of so many holes whose first has that number; empty where none are kept.
  [[nodiscard]] std::vector<HoleDecision> read(std::uint64_t signature, std::uint64_t first_hole,
                                               std::uint64_t holes) const;
  /// Empty, or which file could not be written, and why.
  std::string write(std::uint64_t signature, std::uint64_t first_hole,
                    std::span<const HoleDecision> decisions) const;

 private:
  [[nodiscard]] std::string path_of(std::uint64_t signature) const;

  std::string directory_;
  std::uint64_t depends_on_;
};

}  // namespace spillway::tf
