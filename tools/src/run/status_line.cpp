// SPDX-License-Identifier: Apache-2.0
#include "run/status_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "spillway/runtime/device/mapping_time.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

// A part of the line, left to right. The part with the lowest worth leaves first; a part that has a
// short form is shortened before it leaves.
struct Part {
  int worth;
  std::string text;
  std::string shorter;
};

// Nobody needs to see ops fly by: below this a step says enough by being counted.
constexpr TimeNs kLongStep = 5'000'000'000;

std::string percent_of_time(TimeNs time, const ProcessStatus& sum) {
  return short_percent(share_of_time(time, sum));
}

// How far the step is; empty where that is not worth a place. More ops than last time are a step of
// another kind, of which the end is not known.
std::string progress_of(const ProcessStatus& sum) {
  const std::uint64_t ops = sum.ops_in_step;
  if (ops == 0 || (sum.last_step != 0 && sum.last_step < kLongStep)) return "";
  if (ops > sum.last_step_ops) return fmt::format("op {}", ops);
  return fmt::format("op {} of {}", ops, sum.last_step_ops);
}

void add_moving_parts(std::vector<Part>& parts, const ProcessStatus& sum) {
  // What leaves a card goes to the host first.
  if (sum.disk > Bytes{0} || sum.host == Bytes{0}) {
    parts.push_back({5, fmt::format("disk {}", short_bytes(sum.disk)), ""});
  }
  if (sum.steps > 0) {
    parts.push_back({3, fmt::format("moved {}/step", short_bytes(sum.last_step_moved)), ""});
  } else {
    const Bytes moved = sum.evicted + sum.fetched;
    parts.push_back({3, fmt::format("moved {}", short_bytes(moved)), ""});
  }
  parts.push_back({8, fmt::format("stall {}", percent_of_time(sum.stall, sum)), ""});
  if (runtime::mapping_matters(sum.mapping, sum.elapsed)) {
    parts.push_back({7, fmt::format("mapping {}", percent_of_time(sum.mapping, sum)), ""});
  }
}

std::vector<Part> parts_of(const StatusTotals& totals) {
  const ProcessStatus& sum = totals.sum;
  const std::string count = totals.processes > 1 ? fmt::format(" {}x", totals.processes) : "";
  const std::string room = fmt::format("{} / {}", short_bytes(sum.device), short_bytes(sum.budget));
  std::vector<Part> parts;
  parts.push_back({9, fmt::format("spillway{} {}", count, room), room});
  if (sum.host > Bytes{0}) parts.push_back({4, fmt::format("host {}", short_bytes(sum.host)), ""});
  if (sum.unmanaged > Bytes{0}) {
    parts.push_back({2, fmt::format("unmanaged {}", short_bytes(sum.unmanaged)), ""});
  }
  if (!sum.planner.empty()) parts.push_back({1, "by " + sum.planner, ""});
  const bool rests = totals.processes != 0 && totals.resting == totals.processes;
  if (rests) {
    parts.push_back({8, fits_text(totals), ""});
  } else {
    add_moving_parts(parts, sum);
  }
  // The count of steps of a program without optimizers ends with the watching.
  if (sum.steps > 0 && !(rests && sum.steps == sum.stopped_after_step)) {
    const std::string step = fmt::format("step {}", sum.steps);
    const std::string time = sum.last_step == 0 ? "" : " " + short_time(sum.last_step);
    parts.push_back({7, step + time, step});
  }
  const std::string progress = rests ? "" : progress_of(sum);
  if (!progress.empty()) parts.push_back({6, progress, ""});
  return parts;
}

std::string join(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) {
    if (!line.empty()) line += "  ";
    line += part.text;
  }
  return line;
}

}  // namespace

std::string format_status_line(const StatusTotals& totals, std::size_t columns) {
  std::vector<Part> parts = parts_of(totals);
  std::string line = join(parts);
  // The step's time is the first thing to go: tqdm and its like show it anyway.
  for (std::size_t i = 1; i < parts.size() && line.size() > columns; ++i) {
    if (parts[i].shorter.empty()) continue;
    parts[i].text = parts[i].shorter;
    line = join(parts);
  }
  while (line.size() > columns && parts.size() > 1) {
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const Part& a, const Part& b) { return a.worth < b.worth; }));
    line = join(parts);
  }
  if (line.size() > columns) line = parts.front().shorter;
  return line.substr(0, columns);
}

}  // namespace spillway::tools
