// SPDX-License-Identifier: Apache-2.0
#include "plan/what_if_batch.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <bit>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "plan/planner_run.hpp"
#include "process/recording_run.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

/// Removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code flaw;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(flaw);
    std::string pattern = (parent / "spillway-batch-XXXXXX").string();
    if (!flaw && ::mkdtemp(pattern.data()) == nullptr) flaw = {errno, std::generic_category()};
    if (flaw) {
      throw UserError(fmt::format(
          "No temporary folder can be made: {}. Set TMPDIR to a folder that you can write to.",
          flaw.message()));
    }
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

using Try = LargestBatchAnswer::Try;

class BatchSearch {
 public:
  explicit BatchSearch(const PlanningRequest& request)
      : request_(request), progress_(2 * tries_at_most(request), "what-if") {}

  LargestBatchAnswer answer() {
    const auto [least, most] = *request_.batch;
    std::optional<Try>& fitting = answer_.fitting;
    std::optional<Try>& failing = answer_.failing;
    // The largest first: where it fits nothing else needs to be asked.
    for (std::uint64_t batch = most;;) {
      Try tried = at(batch);
      (tried.step_ns ? fitting : failing) = tried;
      if (batch == least && failing && failing->batch == least) break;
      if (!failing) break;
      if (!fitting) {
        batch = batch == least ? least : next_below(least, failing->batch);
        continue;
      }
      if (failing->batch - fitting->batch <= 1) break;
      batch = fitting->batch + (failing->batch - fitting->batch) / 2;
    }
    if (fitting && searches(planning::planner_named(request_.planner))) improve(*fitting);
    return std::move(answer_);
  }

 private:
  static std::size_t tries_at_most(const PlanningRequest& request) {
    const auto [least, most] = *request.batch;
    return static_cast<std::size_t>(std::bit_width(most - least + 1)) + 2;
  }

  // Until one fits, halfway to the smallest; that one itself at last.
  static std::uint64_t next_below(std::uint64_t least, std::uint64_t failing) {
    return least + (failing - least) / 2;
  }

  [[nodiscard]] std::string trace_of(std::uint64_t batch) const {
    return folder_.file(fmt::format("{}.json.zst", batch));
  }

  Try at(std::uint64_t batch) {
    progress_.begin(fmt::format("recording batch {}", batch));
    record_quietly(program_at(request_.program, batch), trace_of(batch), request_.assume,
                   folder_.file("output"), [&] { progress_.again(); });
    PlanningRequest quick = request_;
    // Improving a plan does not change whether there is one.
    if (searches(planning::planner_named(request_.planner))) quick.time_limit_ns = TimeNs{0};
    answer_.tries.push_back(planned(batch, quick));
    return answer_.tries.back();
  }

  Try planned(std::uint64_t batch, const PlanningRequest& request) {
    PlanningInputs inputs = read_inputs(request, trace_of(batch), &progress_);
    Try tried{.batch = batch,
              .budget = inputs.budgets.stated[Tier::kDevice],
              .peak = peak_bytes(inputs.trace),
              .margin = inputs.budgets.margin,
              .workspace_known = inputs.trace.workspace_known,
              .compute_ns = compute_time(inputs.trace)};
    auto outcome =
        run_planner(planning::planner_named(request.planner), inputs.problem(), request, progress_);
    if (const auto* step = std::get_if<PlannedStep>(&outcome)) {
      tried.step_ns = step->report.step_ns;
    } else {
      const auto& reason = std::get<planning::Infeasible>(outcome);
      tried.short_by = inputs.budgets.about_stated(reason).short_by[index_of(Tier::kDevice)];
    }
    if (answer_.tries.empty()) answer_.inputs = std::move(inputs);
    return tried;
  }

  /// The plan that `spillway plan` would make.
  void improve(Try& tried) { tried = planned(tried.batch, request_); }

  const PlanningRequest& request_;
  TemporaryFolder folder_;
  ProgressLine progress_;
  LargestBatchAnswer answer_;
};

}  // namespace

std::vector<std::string> program_at(const std::vector<std::string>& program, std::uint64_t batch) {
  const std::string_view placeholder = kBatchPlaceholder;
  const std::string number = std::to_string(batch);
  std::vector<std::string> words = program;
  for (std::string& word : words) {
    for (std::size_t at = 0; (at = word.find(placeholder, at)) != std::string::npos;) {
      word.replace(at, placeholder.size(), number);
      at += number.size();
    }
  }
  return words;
}

LargestBatchAnswer largest_batch(const PlanningRequest& request) {
  return BatchSearch(request).answer();
}

}  // namespace spillway::tools
