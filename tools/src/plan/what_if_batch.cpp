// SPDX-License-Identifier: Apache-2.0
#include "plan/what_if_batch.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "plan/planner_run.hpp"
#include "plan/planning_inputs.hpp"
#include "plan/simulation_text.hpp"
#include "process/recording_run.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"
#include "text/quantity_text.hpp"
#include "trace/trace_summary.hpp"

namespace spillway::tools {
namespace {

/// Removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "spillway-batch-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw UserError(fmt::format("No temporary folder: {}.", std::strerror(errno)));
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

/// The step at one size.
struct Try {
  std::uint64_t batch = 0;
  Bytes budget{};
  Bytes peak{};
  Bytes margin{};  ///< of the budget, left free for workspace
  bool workspace_known = true;
  std::string machine;
  Durations durations = Durations::kEstimated;
  std::string durations_text;  ///< lines of the heading
  TimeNs compute_ns = 0;
  std::optional<TimeNs> step_ns{};  ///< nothing: no plan fits
  Bytes short_by{};                 ///< of device memory, where none fits
};

double slowdown_of(const Try& tried) {
  return tried.compute_ns == 0
             ? 0
             : static_cast<double>(*tried.step_ns) / static_cast<double>(tried.compute_ns) - 1;
}

class Search {
 public:
  explicit Search(const PlanningRequest& request)
      : request_(request), progress_(2 * tries_at_most(request), "what-if") {}

  Answer answer() {
    const auto [least, most] = *request_.batch;
    std::optional<Try> fitting;
    std::optional<Try> failing;
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
    return request_.json ? Answer{json(fitting, failing), fitting ? 0 : kNoPlanFits}
                         : Answer{text(fitting, failing), fitting ? 0 : kNoPlanFits};
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
    tries_.push_back(planned(batch, quick));
    return tries_.back();
  }

  Try planned(std::uint64_t batch, const PlanningRequest& request) {
    const PlanningInputs inputs = read_inputs(request, trace_of(batch), &progress_);
    Try tried{.batch = batch,
              .budget = inputs.whole_device,
              .peak = peak_bytes(inputs.trace),
              .margin = inputs.margin,
              .workspace_known = inputs.trace.workspace_known,
              .machine = inputs.machine.name,
              .durations = inputs.durations.are,
              .durations_text = durations_lines(inputs.durations, inputs.trace, inputs.machine),
              .compute_ns = compute_time(inputs.trace)};
    auto outcome =
        run_planner(planning::planner_named(request.planner), inputs.problem(), request, progress_);
    if (const auto* step = std::get_if<PlannedStep>(&outcome)) {
      tried.step_ns = step->report.step_ns;
    } else {
      tried.short_by = std::get<planning::Infeasible>(outcome).short_by[index_of(Tier::kDevice)];
    }
    return tried;
  }

  /// The plan that `spillway plan` would make.
  void improve(Try& tried) { tried = planned(tried.batch, request_); }

  [[nodiscard]] std::string text(const std::optional<Try>& fitting,
                                 const std::optional<Try>& failing) const {
    std::string text = machine_line(tries_.front().machine, request_.machine.has_value());
    text += tries_.front().durations_text;
    text += fmt::format("budget        {} of device memory\n", short_bytes(tries_.front().budget));
    if (fitting) {
      text += fmt::format("largest       batch {}: peak {} without a plan\n", fitting->batch,
                          short_bytes(fitting->peak));
      text += fmt::format("step          {}, slower by {}\n", short_time(*fitting->step_ns),
                          short_percent(slowdown_of(*fitting)));
    } else {
      text += "largest       none: not even the smallest size fits\n";
    }
    if (failing) {
      text += fmt::format(
          "too large     batch {}: peak {}{}\n", failing->batch, short_bytes(failing->peak),
          failing->short_by == Bytes{0}
              ? ""
              : fmt::format(", {} of the device short", short_bytes(failing->short_by)));
    } else {
      text += "too large     none: the largest size asked for fits\n";
    }
    text += workspace_text(fitting ? *fitting : *failing);
    return text + fmt::format("recorded      {} sizes\n", tries_.size());
  }

  static std::string workspace_text(const Try& tried) {
    if (tried.workspace_known) return "";
    return fmt::format(
        "note          recorded without kernels: peaks are without workspace\n"
        "left free     {} for workspace at batch {}; see --workspace-margin\n",
        to_string(tried.margin), tried.batch);
  }

  static Json try_json(const Try& tried) {
    Json json{{"batch", tried.batch},           {"budget_bytes", tried.budget.count},
              {"peak", tried.peak.count},       {"workspace_margin", tried.margin.count},
              {"compute_ns", tried.compute_ns}, {"feasible", tried.step_ns.has_value()}};
    if (tried.step_ns) {
      json["step_ns"] = *tried.step_ns;
      json["slowdown"] = slowdown_of(tried);
    } else {
      json["short"] = tried.short_by.count;
    }
    return json;
  }

  [[nodiscard]] std::string json(const std::optional<Try>& fitting,
                                 const std::optional<Try>& failing) const {
    Json tries = Json::array();
    for (const Try& tried : tries_) tries.push_back(try_json(tried));
    return json_text({{"machine", tries_.front().machine},
                      {"durations", to_string(tries_.front().durations)},
                      {"largest", fitting ? try_json(*fitting) : Json()},
                      {"too_large", failing ? try_json(*failing) : Json()},
                      {"tries", std::move(tries)}});
  }

  const PlanningRequest& request_;
  TemporaryFolder folder_;
  ProgressLine progress_;
  std::vector<Try> tries_;
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

Answer largest_batch(const PlanningRequest& request) { return Search(request).answer(); }

}  // namespace spillway::tools
