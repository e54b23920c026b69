// SPDX-License-Identifier: Apache-2.0
// A comparison as a table, and a small picture of its front (pareto_front.hpp).
// Pure functions; they throw nothing but std::bad_alloc.
#pragma once

#include <span>
#include <string>

#include "plan/compare_command.hpp"
#include "plan/pareto_front.hpp"

namespace spillway::tools {

/// Lines of at most 80 columns, the largest budget first: budget, step, what it adds to
/// `compute_ns`, a bar as long as that, and the planner. Equal points are one line. Empty without
/// points.
std::string front_text(std::span<const FrontPoint> all, TimeNs compute_ns);

/// Lines of at most 80 columns: what each planner's step takes more at each budget, and the front.
std::string text_of(const ComparisonAnswer& answer);

}  // namespace spillway::tools
