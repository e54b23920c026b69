// SPDX-License-Identifier: Apache-2.0
#include "rewritten_graphs.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "graph_def.hpp"

namespace spillway::tf {

void RewrittenGraphs::set_plans(PlanLoop& plans, RunProfiler& profiler) {
  plans_ = &plans;
  profiler_ = &profiler;
}

void RewrittenGraphs::only_record(StepRecord* record) {
  only_records_ = true;
  record_ = record;
}

std::optional<std::string> RewrittenGraphs::rewrite(std::string_view graph,
                                                    const OpCatalogue& catalogue) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    return rewrite_locked(graph, catalogue);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spillway: a graph is left as it was: %s\n", error.what());
  }
  return std::nullopt;
}

std::optional<std::string> RewrittenGraphs::rewrite_locked(std::string_view graph,
                                                           const OpCatalogue& catalogue) {
  RewriteOptions options = options_();
  options.first_hole = table_.state().holes;
  options.first_clock = clocks_;
  RewriteResult result = rewrite_graph(graph, catalogue, options);
  if (only_records_) {
    if (result.rewritten && record_ != nullptr) record_->watch(node_names(graph));
    return std::nullopt;
  }
  if (!result.rewritten) {
    ++counts_.left[result.reason];
    return std::nullopt;
  }
  add_locked(*result.rewritten);
  return std::move(result.rewritten->graph);
}

void RewrittenGraphs::add_locked(Rewritten& rewritten) {
  std::vector<bool> in_loop;
  for (const PairName& pair : rewritten.pairs) {
    in_loop.insert(in_loop.end(), pair.holes.size(), pair.in_loop);
  }
  const bool by_plan = plans_ != nullptr && std::ranges::count(in_loop, false) != 0;
  const std::uint64_t first_hole = table_.add_holes(in_loop, by_plan);
  const std::uint64_t first_clock = clocks_;
  clocks_ += rewritten.clocks.size();
  ++counts_.rewritten;
  if (!by_plan) return;
  profiler_->watch(node_names(rewritten.graph));
  plans_->add_graph({.pairs = std::move(rewritten.pairs),
                     .clocks = std::move(rewritten.clocks),
                     .partitions = std::move(rewritten.partitions),
                     .first_hole = first_hole,
                     .first_clock = first_clock,
                     .signature = rewritten.signature});
}

GraphCounts RewrittenGraphs::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace spillway::tf
