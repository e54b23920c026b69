// SPDX-License-Identifier: Apache-2.0
// The step as an endless sequence of positions, as windows of the bound see it: position n + i is
// op i of the next step, position i - n that of the step before. Times use the shortest durations.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::bound {

using Position = std::int64_t;
inline constexpr Position kLongAgo = std::numeric_limits<Position>::min() / 4;
inline constexpr Position kNeverAgain = std::numeric_limits<Position>::max() / 4;

struct CyclicView {
  explicit CyclicView(const StepModel& model);

  /// When the op at a position begins, if nothing ever stalls, counted from op 0 of this step.
  [[nodiscard]] double time(Position position) const {
    Position step = position / ops;
    Position op = position % ops;
    if (op < 0) {
      op += ops;
      --step;
    }
    return static_cast<double>(step) * period + begin[static_cast<std::size_t>(op)];
  }
  [[nodiscard]] Row op_at(Position position) const {
    const Position op = position % ops;
    return static_cast<Row>(op < 0 ? op + ops : op);
  }
  /// The bytes that the op needs at once, with its smallest workspace.
  [[nodiscard]] std::uint64_t working_set(Row op) const { return model->least_working_set(op); }

  /// The bytes alive while the op runs, with its smallest workspace.
  [[nodiscard]] std::uint64_t alive(Row op) const { return model->least_alive(op); }
  /// The op during which most is.
  [[nodiscard]] Row fullest() const {
    Row most = 0;
    for (Row op = 1; op < model->table.ops(); ++op) {
      if (alive(op) > alive(most)) most = op;
    }
    return most;
  }

  const StepModel* model;
  Position ops;
  double period = 0;
  std::vector<double> begin;  ///< per op
  // Per touch, as positions of a touch in this step:
  std::vector<Position> previous;    ///< of the touch before; kNeverAgain where it creates
  std::vector<Position> next;        ///< of the touch after; kNeverAgain where there is none
  std::vector<Position> last_write;  ///< up to this touch; kLongAgo where no step writes it
};

}  // namespace spillway::planning::bound
