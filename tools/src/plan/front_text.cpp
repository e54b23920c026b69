// SPDX-License-Identifier: Apache-2.0
#include "plan/front_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {

bool is_on_front(const FrontPoint& point, std::span<const FrontPoint> all) {
  return std::none_of(all.begin(), all.end(), [&](const FrontPoint& other) {
    if (other.budget > point.budget || other.step_ns > point.step_ns) return false;
    return other.budget < point.budget || other.step_ns < point.step_ns;
  });
}

std::string three_digits(Bytes budget) {
  const bool small = budget < kGiB;
  const double value =
      static_cast<double>(budget.count) / static_cast<double>(small ? kMiB.count : kGiB.count);
  const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, small ? "MiB" : "GiB");
}

std::string over_text(TimeNs step, TimeNs least) {
  if (least == 0) return "-";
  constexpr double kPercent = 100;
  const double over = static_cast<double>(step - least) / static_cast<double>(least) * kPercent;
  constexpr double kDigits = 10;
  return over < kDigits ? fmt::format("{:.1f} %", over) : fmt::format("{:.0f} %", over);
}

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

}  // namespace spillway::tools
