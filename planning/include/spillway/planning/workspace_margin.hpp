// SPDX-License-Identifier: Apache-2.0
// Room for what kernels allocate for themselves, where the trace does not know it.
//
// A step recorded without running its kernels has no workspace in `workspace`: a plan that fills
// the budget by its figures would not fit when it runs. The margin is a number of bytes that plans
// leave free at every op, stated as a share of the largest working set. Planners, simulator and
// bound need not know of it: they are given the smaller budget, and StatedBudgets puts their answer
// in the terms of the person who stated the whole one.
//
//     stated device budget   |=========== for plans ===========|= margin =|
//
// **The share.** A 3D U-Net (96^3, batch 2) has a largest working set of 566 MB by its recording
// and of 906 MB with kernels, where the backward convolution holds 340 MB: 0.6 of what is known.
// Other kernels hold less for their size, so that 0.6 is cautious for most networks, and no
// guarantee: where a run is possible, record with it.
//
// Pure functions of linear time.
#pragma once

#include <cstdint>
#include <span>

#include "spillway/base/bytes.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/planning/planner.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

inline constexpr double kWorkspaceShare = 0.6;

/// `share`, not negative, of the largest working set of an op whose workspace is not known; 0 where
/// the trace knows it of all. `known`, by op: where it was lent (kernel_workspace.hpp); empty: of
/// none.
Bytes workspace_margin(const Trace& trace, double share = kWorkspaceShare,
                       std::span<const std::uint8_t> known = {});

/// The budgets with so much of the device's left free; none of it where it is no more than that.
Budgets leaving_free(Budgets budgets, Bytes margin);

/// Budgets as a person states them, and how much of the device's plans leave free. A value.
struct StatedBudgets {
  Budgets stated{};
  Bytes margin{};

  /// Returns the budgets that planners, simulator and bound are given.
  [[nodiscard]] Budgets for_plans() const { return leaving_free(stated, margin); }
  /// The same with another device budget.
  [[nodiscard]] StatedBudgets with_device(Bytes device) const;
  /// An answer to for_plans(), about the stated budgets: a budget that would do includes the
  /// margin, in the remedies too, and what is short of the device's is short of the whole one.
  [[nodiscard]] Infeasible about_stated(Infeasible answer) const;
};

}  // namespace spillway::planning
