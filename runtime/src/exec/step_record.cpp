// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/step_record.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace spillway::runtime {

// Two touches of an op that end with the same one are of one storage.
void StepRecord::choose_gaps(std::uint64_t pass, Bytes budget) {
  if (!gaps.is_due(pass, Bytes{demand.most()}, budget)) return;
  std::vector<Gap> between;
  std::vector<std::uint32_t> ends;
  std::vector<std::uint32_t> seen_in(plan.size(), UINT32_MAX);  // op, by the touch that ends it
  for (std::uint32_t op = 0; op < ops.size(); ++op) {
    const std::uint32_t first = ops[op].first_touch;
    for (std::uint32_t touch = first; touch < first + ops[op].touch_count; ++touch) {
      const Touch& planned = plan[touch];
      if (planned.next == kNoTouch || gaps.bytes(touch).count == 0) continue;
      if (std::exchange(seen_in[planned.next], op) == op) continue;
      between.push_back({.begin = op,
                         .ops = planned.distance,
                         .bytes = gaps.bytes(touch),
                         .again = gaps.again(planned.next)});
      ends.push_back(planned.next);
    }
  }
  gaps.choose(between, ends, plan.size(), demand, pass, budget);
}

}  // namespace spillway::runtime
