// SPDX-License-Identifier: Apache-2.0
// Which plans of a comparison are worth having, and a small picture of them: on the front are those
// beside which no other has both a smaller budget and a shorter step (the Pareto front).
// Pure functions; they throw nothing but std::bad_alloc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tools {

/// One plan of a comparison.
struct FrontPoint {
  std::string_view planner;
  Bytes budget{};
  TimeNs step_ns = 0;
  bool operator==(const FrontPoint&) const = default;
};

/// Whether no other point has both a smaller or equal budget and a shorter or equal step, one of
/// them strictly.
bool is_on_front(const FrontPoint& point, std::span<const FrontPoint> all);

/// Lines of at most 80 columns, the largest budget first: budget, step, what it adds to
/// `compute_ns`, a bar as long as that, and the planner. Equal points are one line. Empty without
/// points.
std::string front_text(std::span<const FrontPoint> all, TimeNs compute_ns);

/// `12.3 GiB`: three digits, since budgets that differ by little must not look the same.
std::string three_digits(Bytes budget);
/// `4.5 %`: what a step of `step` takes more than one of `least`; `-` where that is 0.
std::string over_text(TimeNs step, TimeNs least);

}  // namespace spillway::tools
