// SPDX-License-Identifier: Apache-2.0
#include "answer/what_if_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "answer/inputs_text.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

using Row = FitsAnswer::Row;
using Rows = std::vector<Row>;
using Try = LargestBatchAnswer::Try;

std::string no_budget_lines(const SmallestBudgetAnswer& answer) {
  const std::string there =
      answer.step_at_most
          ? fmt::format("is slower by {}",
                        short_percent(slowdown_of(*answer.step_at_most, answer.compute_ns)))
          : std::string("does not fit");
  return fmt::format(
      "No budget gives a slowdown of at most {} with {}:\n"
      "at {}, with which all of the step fits, its plan {}.\n",
      short_percent(answer.slowdown), answer.planner, short_bytes(answer.most), there);
}

// Paths differ at their ends.
std::string ending(const std::string& name, std::size_t width) {
  if (name.size() <= width) return printable(name, width);
  return "..." + printable(std::string_view(name).substr(name.size() - width + 3), width - 3);
}

/// Rows differ in where their durations are from.
bool is_mixed(const Rows& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& row) { return row.durations != rows.front().durations; });
}

/// A line that says where durations are from.
std::string durations_note(const Rows& rows) {
  constexpr std::string_view kEstimated = "estimated from the machine's figures";
  if (is_mixed(rows)) return fmt::format("*: durations as recorded, else {}.\n", kEstimated);
  return rows.front().durations == Durations::kEstimated
             ? fmt::format("Durations are {}.\n", kEstimated)
             : "Durations are as recorded; see --estimate-times.\n";
}

/// Lines that say what the figures leave out; none where nothing is.
std::string workspace_note(const Rows& rows) {
  const bool all_known =
      std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.workspace_known; });
  if (all_known) return "";
  const auto by_margin = [](const Row& a, const Row& b) { return a.margin < b.margin; };
  const auto [least, most] = std::minmax_element(rows.begin(), rows.end(), by_margin);
  const std::string margin =
      least->margin == most->margin
          ? to_string(most->margin)
          : fmt::format("{} to {}", to_string(least->margin), to_string(most->margin));
  return fmt::format(
      "Recorded without kernels: peaks are without workspace. Of each budget\n"
      "{} are left free for workspace; see --workspace-margin.\n",
      margin);
}

std::string workspace_lines(const Try& tried) {
  if (tried.workspace_known) return "";
  return fmt::format(
      "note          recorded without kernels: peaks are without workspace\n"
      "left free     {} for workspace at batch {}; see --workspace-margin\n",
      to_string(tried.margin), tried.batch);
}

}  // namespace

std::string text_of(const SmallestBudgetAnswer& answer) {
  std::string text = heading(answer.inputs);
  if (!answer.budget) return text + no_budget_lines(answer);
  text += fmt::format("A slowdown of at most {} takes {}", short_percent(answer.slowdown),
                      short_bytes(*answer.budget));
  if (answer.peak > Bytes{0}) {
    text += fmt::format(", {} of the peak of {}",
                        short_percent(static_cast<double>(answer.budget->count) /
                                      static_cast<double>(answer.peak.count)),
                        short_bytes(answer.peak));
  }
  if (!answer.machine_has_it()) {
    constexpr std::size_t kNameWidth = 40;
    text += fmt::format(",\nmore than the {} of {}",
                        short_bytes(answer.inputs.budgets.stated[Tier::kDevice]),
                        printable(answer.inputs.machine.name, kNameWidth));
  }
  return text + fmt::format(":\n--budget {}B\n", answer.budget->count);
}

std::string text_of(const FitsAnswer& answer) {
  std::string text = fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", answer.what, "peak", "budget",
                                 "step", "slower by");
  const bool mixed = is_mixed(answer.rows);
  for (const Row& row : answer.rows) {
    constexpr std::size_t kNameWidth = 31;
    const bool marked = mixed && row.step_ns && row.durations == Durations::kRecorded;
    text +=
        fmt::format("{:<32}{:>11}{:>11}{:>14}{:>11}\n", ending(row.name, kNameWidth),
                    short_bytes(row.peak), short_bytes(row.budget),
                    row.step_ns ? short_time(*row.step_ns) + (marked ? "*" : "") : "does not fit",
                    row.step_ns ? short_percent(slowdown_of(*row.step_ns, row.compute_ns)) : "-");
  }
  if (!answer.machine.empty()) {
    constexpr std::size_t kMachineWidth = 70;
    text += fmt::format("On {}.\n", printable(answer.machine, kMachineWidth));
  }
  return text + durations_note(answer.rows) + workspace_note(answer.rows);
}

std::string text_of(const LargestBatchAnswer& answer) {
  const auto& [inputs, fitting, failing, tries] = answer;
  std::string text = machine_line(inputs);
  text += durations_lines(inputs.durations, inputs.trace, inputs.machine);
  text += fmt::format("budget        {} of device memory\n", short_bytes(tries.front().budget));
  if (fitting) {
    text += fmt::format("largest       batch {}: peak {} without a plan\n", fitting->batch,
                        short_bytes(fitting->peak));
    text += fmt::format("step          {}, slower by {}\n", short_time(*fitting->step_ns),
                        short_percent(slowdown_of(*fitting->step_ns, fitting->compute_ns)));
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
  text += workspace_lines(fitting ? *fitting : *failing);
  return text + fmt::format("recorded      {} sizes\n", tries.size());
}

}  // namespace spillway::tools
