// SPDX-License-Identifier: Apache-2.0
#include "text/quantity_text.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>

namespace spillway::tools {
namespace {

// Below ten one digit after the point, unless it is zero.
std::string few_digits(double value) {
  const double tenths = std::round(value * 10) / 10;
  if (tenths >= 10 || tenths == std::floor(tenths)) return fmt::format("{:.0f}", value);
  return fmt::format("{:.1f}", tenths);
}

// Moves to the next unit where rounding would print 1024 (or 1000) of this one.
template <std::size_t kCount>
std::string with_unit(double value, double step,
                      const std::array<std::string_view, kCount>& units) {
  std::size_t unit = 0;
  while (unit + 1 < kCount && std::round(value) >= step) {
    value /= step;
    ++unit;
  }
  return fmt::format("{} {}", few_digits(value), units[unit]);
}

}  // namespace

std::string short_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return with_unit(static_cast<double>(bytes.count), 1024, kUnits);
}

std::string short_time(TimeNs time) {
  const double seconds = static_cast<double>(time) / 1e9;
  if (time > 0 && time < 999'500) return fmt::format("{} us", few_digits(seconds * 1e6));
  if (seconds < 0.9995) return fmt::format("{} ms", few_digits(seconds * 1e3));
  if (seconds < 59.5) return fmt::format("{} s", few_digits(seconds));
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string short_percent(double share) {
  if (share > 0 && share < 0.005) return "<1 %";
  return fmt::format("{:.0f} %", share * 100);
}

std::string short_rate(double bytes_per_second) {
  constexpr std::array<std::string_view, 5> kUnits{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return with_unit(bytes_per_second, 1000, kUnits);
}

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!line.empty() && line.size() + 1 + word.size() > width) {
      lines.push_back(std::move(line));
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace spillway::tools
