// SPDX-License-Identifier: Apache-2.0
// Counts the steps of training, which the framework does not report: the runs of the graph with
// pairs that ran most often.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tf {

struct StepFigures {
  std::uint64_t steps = 0;  ///< that began
  TimeNs last_ns = 0;       ///< from the beginning of the last but one to that of the last
  Bytes moved_in_last{};    ///< out and in, meanwhile
};

/// Thread-safe.
class StepCount {
 public:
  /// A graph runs, in the step that the framework gave this number: one more run of it, unless
  /// that is the number of its last one, in which a loop makes another turn. `moved`: bytes moved
  /// since the process began. Returns whether it is the first run of the graph.
  bool begin(std::size_t graph, std::int64_t step, TimeNs now, Bytes moved);
  /// Figures of the graph that ran most often, the first of several.
  [[nodiscard]] StepFigures figures() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  struct Runs {
    StepFigures figures;
    std::int64_t step = 0;
    TimeNs began = 0;
    Bytes moved_before{};
  };

  mutable std::mutex mutex_;
  std::vector<Runs> graphs_;
};

}  // namespace spillway::tf
