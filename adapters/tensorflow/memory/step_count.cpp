// SPDX-License-Identifier: Apache-2.0
#include "step_count.hpp"

#include <algorithm>

namespace spillway::tf {

bool StepCount::begin(std::size_t graph, std::int64_t step, TimeNs now, Bytes moved) {
  const std::lock_guard lock(mutex_);
  if (graph >= graphs_.size()) graphs_.resize(graph + 1);
  Runs& runs = graphs_[graph];
  if (runs.figures.steps != 0 && runs.step == step) return false;
  runs.step = step;
  const bool first = runs.figures.steps++ == 0;
  if (!first) {
    runs.figures.last_ns = now - runs.began;
    runs.figures.moved_in_last = saturating_sub(moved, runs.moved_before);
  }
  runs.began = now;
  runs.moved_before = moved;
  return first;
}

StepFigures StepCount::figures() const {
  const std::lock_guard lock(mutex_);
  const auto most =
      std::ranges::max_element(graphs_, {}, [](const Runs& runs) { return runs.figures.steps; });
  return most == graphs_.end() ? StepFigures{} : most->figures;
}

}  // namespace spillway::tf
