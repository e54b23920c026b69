// SPDX-License-Identifier: Apache-2.0
// Rewrites the graphs of a process, makes their pairs known to those who decide on them, and counts
// what became of each graph.
//
//     graph ──rewrite.hpp──> pairs ──> SwapTable, PlanLoop
//                              └─> in record mode: StepRecord, and the graph is left
//
// Thread-safe: one graph at a time, since numbers of holes and clocks are given out before it is
// known how many a graph needs. The locks of the others are taken inside its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "op_types.hpp"
#include "plan_loop.hpp"
#include "rewrite.hpp"
#include "run_profile.hpp"
#include "step_record.hpp"
#include "swap_table.hpp"

namespace spillway::tf {

/// Graphs that are left as they were, for one reason.
struct LeftGraphs {
  std::uint64_t count = 0;
  std::string sample;  ///< a node of the first
};

struct GraphCounts {
  std::uint64_t rewritten = 0;
  std::map<std::string, LeftGraphs> left;  ///< by reason

  [[nodiscard]] std::map<std::string, std::uint64_t> left_because() const;
  [[nodiscard]] std::uint64_t left_in_all() const;
};

class RewrittenGraphs {
 public:
  /// `options` of the next graph, but for its first numbers. Refers to the table for its life.
  RewrittenGraphs(SwapTable& table, std::function<RewriteOptions()> options)
      : table_(table), options_(std::move(options)) {}

  /// Plans decide on the graphs, of runs that the profiler measures. Before the first graph; both
  /// outlive this.
  void set_plans(PlanLoop& plans, RunProfiler& profiler);
  /// Graphs are left as they are, and the runs of those that would have pairs are recorded, unless
  /// `record` is null. Before the first graph; the record outlives this.
  void only_record(StepRecord* record);

  /// The graph with its pairs, or nothing: why is counted. Never throws.
  std::optional<std::string> rewrite(std::string_view graph, const OpCatalogue& catalogue) noexcept;

  [[nodiscard]] GraphCounts counts() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  std::optional<std::string> rewrite_locked(std::string_view graph, const OpCatalogue& catalogue);
  void add_locked(Rewritten& rewritten);
  void leave_locked(const std::string& reason, const std::string& sample);

  SwapTable& table_;
  const std::function<RewriteOptions()> options_;
  PlanLoop* plans_ = nullptr;
  RunProfiler* profiler_ = nullptr;
  bool only_records_ = false;
  StepRecord* record_ = nullptr;
  mutable std::mutex mutex_;
  std::uint64_t clocks_ = 0;
  GraphCounts counts_;
};

}  // namespace spillway::tf
