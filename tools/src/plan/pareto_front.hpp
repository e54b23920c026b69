// SPDX-License-Identifier: Apache-2.0
// Finds the plans of a comparison that are worth having: those beside which no other has both a
// smaller budget and a shorter step (the Pareto front). Pure; thread-safe.
#pragma once

#include <span>
#include <string_view>

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

}  // namespace spillway::tools
