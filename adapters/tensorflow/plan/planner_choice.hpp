// SPDX-License-Identifier: Apache-2.0
// The planner that a person names, with its options, and the part of it that the rewriting of a
// graph does.
//
//     lms                             threshold, ahead and groupby tuned
//     lms:threshold=4,ahead=2         as given
//     lms:serialise-levels=on         heavy ops of one level run one after the other; hybrid has
//                                     that on
//     partitioned:partition-size=50   partitions of 50 nodes, one after the other
//
//     superneurons, hybrid            cheap ops may be computed again: the graph gets twins
//     hybrid:recompute=off            it gets none
//     lms:sync-mode=3,tune=off        swap-outs (1), swap-ins (2) or both hold their threads
//     partitioned                     all variables lie in the store, but the smallest
//     partitioned:variables-on-host=off  those that the budget has no room for, as elsewhere
//
//     none                            no planner: the table measures and decides
//
// Where nobody names one it is hybrid. Options are those of `spillway plan`. A value; errors:
// UserError.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rewrite.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::tf {

struct PlannerChoice {
  const planning::Planner* planner = nullptr;
  planning::Options options;
  PairOptions pairs;
  bool serialise_levels = false;
  std::size_t partition_nodes = 0;  ///< 0: no barriers
  bool twins = false;               ///< the planner may have ops run again
  bool swap_outs_block = false;     ///< they hold their threads
  bool swap_ins_block = false;
  bool variables_on_host = false;  ///< all of them, whatever the budget has room for
};

/// Names of the planners whose plans a graph can carry out.
std::span<const std::string_view> executed_planners();

PlannerChoice parse_planner(std::string_view text);

/// What the setting SPILLWAY_PLANNER says, which may be empty. Nothing: no planner decides.
std::optional<PlannerChoice> choose_planner(std::string_view setting);

}  // namespace spillway::tf
