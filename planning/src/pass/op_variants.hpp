// SPDX-License-Identifier: Apache-2.0
// Chooses the alternative that each op runs as: a faster kernel that needs more workspace, or a
// slower one that needs less. Source: workspace choice of SuperNeurons (Wang et al. 2018).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

class OpVariants {
 public:
  /// Every op as it was recorded. Refers to `model`.
  explicit OpVariants(const StepModel& model);

  /// The fastest alternative of `op` whose workspace is at most `room`; where none is, the one with
  /// the smallest. Nothing where that is the op as recorded.
  std::optional<std::uint32_t> choose(Row op, std::uint64_t room);
  [[nodiscard]] bool has_alternatives(Row op) const;

  [[nodiscard]] TimeNs duration(Row op) const { return duration_[op]; }
  /// Bytes of workspace.
  [[nodiscard]] std::uint64_t workspace(Row op) const { return workspace_[op]; }

 private:
  const StepModel& model_;
  std::vector<TimeNs> duration_;
  std::vector<std::uint64_t> workspace_;
};

}  // namespace spillway::planning::pass
