// SPDX-License-Identifier: Apache-2.0
#include "plan/pareto_front.hpp"

#include <algorithm>

namespace spillway::tools {

bool is_on_front(const FrontPoint& point, std::span<const FrontPoint> all) {
  return std::none_of(all.begin(), all.end(), [&](const FrontPoint& other) {
    if (other.budget > point.budget || other.step_ns > point.step_ns) return false;
    return other.budget < point.budget || other.step_ns < point.step_ns;
  });
}

}  // namespace spillway::tools
