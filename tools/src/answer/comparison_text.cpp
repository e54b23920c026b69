// SPDX-License-Identifier: Apache-2.0
#include "answer/comparison_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "answer/inputs_text.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

/// `12.3 GiB`: three digits, since budgets that differ by little must not look the same.
std::string three_digits(Bytes budget) {
  const bool small = budget < kGiB;
  const double value =
      static_cast<double>(budget.count) / static_cast<double>(small ? kMiB.count : kGiB.count);
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, small ? "MiB" : "GiB");
}

/// `4.5 %`: what a step of `step` takes more than one of `least`; `-` where that is 0.
std::string over_text(TimeNs step, TimeNs least) {
  if (least == 0) return "-";
  constexpr double kPercent = 100;
  const double over = static_cast<double>(step - least) / static_cast<double>(least) * kPercent;
  constexpr double kDigits = 10;
  return over < kDigits ? fmt::format("{:.1f} %", over) : fmt::format("{:.0f} %", over);
}

using Cell = ComparisonAnswer::Cell;
using Column = ComparisonAnswer::Column;

/// At most six columns, which fit a terminal beside the names.
std::string table_text(std::span<const Column> columns, TimeNs compute_ns) {
  std::string text = fmt::format("\n{:<20}", "device budget");
  for (const Column& column : columns) text += fmt::format("{:>9} ", three_digits(column.budget));
  text += fmt::format("\n{:<20}", "lower bound");
  for (const Column& column : columns) {
    text +=
        fmt::format("{:>9} ", column.bound ? over_text(column.bound->step_ns, compute_ns) : "-");
  }
  for (std::size_t row = 0; row < columns.front().cells.size(); ++row) {
    text += fmt::format("\n{:<20}", columns.front().cells[row].planner->name());
    for (const Column& column : columns) {
      const Cell& cell = column.cells[row];
      text += fmt::format("{:>9}{}", cell.step_ns ? over_text(*cell.step_ns, compute_ns) : "-",
                          cell.on_front ? '*' : ' ');
    }
  }
  return text + "\n";
}

}  // namespace

std::string front_text(std::span<const FrontPoint> all, TimeNs compute_ns) {
  std::vector<FrontPoint> front;
  for (const FrontPoint& point : all) {
    if (is_on_front(point, all)) front.push_back(point);
  }
  if (front.empty()) return "";
  std::stable_sort(front.begin(), front.end(),
                   [](const FrontPoint& a, const FrontPoint& b) { return a.budget > b.budget; });
  TimeNs most = 0;
  for (const FrontPoint& point : front) most = std::max(most, point.step_ns - compute_ns);
  std::string text = "\nfront: less memory only for a longer step, and the reverse\n";
  constexpr double kBar = 24;
  for (std::size_t i = 0; i < front.size(); ++i) {
    const FrontPoint& point = front[i];
    const bool again = i > 0 && front[i - 1].budget == point.budget;
    if (again) continue;
    const double share =
        most <= 0 ? 0 : static_cast<double>(point.step_ns - compute_ns) / static_cast<double>(most);
    const auto marks = static_cast<std::size_t>(std::lround(std::max(share, 0.0) * kBar));
    constexpr std::size_t kNameWidth = 20;
    text += fmt::format("{:>10}  {:>9}  {:>8}  |{:<24}  {}\n", three_digits(point.budget),
                        short_time(point.step_ns), over_text(point.step_ns, compute_ns),
                        std::string(marks, '#'), printable(point.planner, kNameWidth));
  }
  return text;
}

std::string text_of(const ComparisonAnswer& answer) {
  constexpr std::size_t kBeside = 6;
  const std::vector<Column>& columns = answer.columns;
  std::string text = heading(answer.inputs) +
                     fmt::format("step          {} without limit; below, what each plan adds\n",
                                 short_time(answer.compute_ns));
  for (std::size_t first = 0; first < columns.size(); first += kBeside) {
    const std::size_t beside = std::min(columns.size() - first, kBeside);
    text += table_text(std::span(columns).subspan(first, beside), answer.compute_ns);
  }
  const bool gaps = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
    return std::any_of(column.cells.begin(), column.cells.end(),
                       [](const Cell& cell) { return !cell.step_ns; });
  });
  if (!answer.points.empty()) text += "\n*: on the front below\n";
  if (gaps) text += fmt::format("{}-: no plan fits\n", answer.points.empty() ? "\n" : "");
  return text + front_text(answer.points, answer.compute_ns);
}

}  // namespace spillway::tools
