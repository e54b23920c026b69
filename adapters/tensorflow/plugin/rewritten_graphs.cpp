// SPDX-License-Identifier: Apache-2.0
#include "rewritten_graphs.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "graph_def.hpp"

namespace spillway::tf {

std::map<std::string, std::uint64_t> GraphCounts::left_because() const {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [reason, graphs] : left) counts[reason] = graphs.count;
  return counts;
}

std::uint64_t GraphCounts::left_in_all() const {
  std::uint64_t count = 0;
  for (const auto& [reason, graphs] : left) count += graphs.count;
  return count;
}

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
    leave_locked(result.reason, result.sample);
    return std::nullopt;
  }
  add_locked(*result.rewritten);
  return std::move(result.rewritten->graph);
}

void RewrittenGraphs::leave_locked(const std::string& reason, const std::string& sample) {
  const auto [left, first] = counts_.left.try_emplace(reason, LeftGraphs{.sample = sample});
  ++left->second.count;
}

void RewrittenGraphs::add_locked(Rewritten& rewritten) {
  std::vector<bool> in_loop;
  for (const PairName& pair : rewritten.pairs) {
    in_loop.insert(in_loop.end(), pair.holes.size(), pair.in_loop);
  }
  const bool by_plan =
      plans_ != nullptr && std::ranges::count(in_loop, false) != 0 && plans_->plans();
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
