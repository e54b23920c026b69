// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/bytes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
constexpr std::string_view kLetters = "kmgtpe";
constexpr std::string_view kSpace = " \t";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

std::uint64_t power(std::uint64_t base, std::size_t exponent) {
  std::uint64_t result = 1;
  while (exponent-- > 0) result *= base;
  return result;
}

std::optional<std::uint64_t> unit_bytes(std::string_view unit) {
  const std::string name = lower_case(unit);
  if (name.empty() || name == "b") return 1;
  const auto rank = kLetters.find(name[0]);
  if (rank == std::string_view::npos) return std::nullopt;
  const std::string_view rest = std::string_view(name).substr(1);
  if (rest.empty() || rest == "ib") return power(1024, rank + 1);
  if (rest == "b") return power(1000, rank + 1);
  return std::nullopt;
}

std::optional<std::uint64_t> scaled(std::string_view digits, std::uint64_t unit) {
  const char* const end = digits.data() + digits.size();
  if (digits.find('.') == std::string_view::npos) {
    std::uint64_t whole = 0;
    const auto [stop, error] = std::from_chars(digits.data(), end, whole);
    std::uint64_t result = 0;
    if (error != std::errc{} || stop != end || __builtin_mul_overflow(whole, unit, &result)) {
      return std::nullopt;
    }
    return result;
  }
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || stop != end) return std::nullopt;
  const double product = std::floor(value * static_cast<double>(unit));
  // The first double that does not fit: 2^64.
  if (!(product >= 0 && product < 0x1p64)) return std::nullopt;
  return static_cast<std::uint64_t>(product);
}

}  // namespace

Bytes& Bytes::operator-=(Bytes other) {
  SPILLWAY_CHECK(other.count <= count, fmt::format("{} - {} bytes", count, other.count));
  count -= other.count;
  return *this;
}

std::string to_string(Bytes bytes) {
  auto value = static_cast<double>(bytes.count);
  std::size_t unit = 0;
  // A value that would print as 1024 of a unit is 1 of the next.
  while (value >= 1023.9995 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::string digits = fmt::format("{:.3f}", value);
  digits.erase(digits.find_last_not_of('0') + 1);
  if (digits.back() == '.') digits.pop_back();
  return fmt::format("{} {}", digits, kUnits[unit]);
}

Bytes parse_bytes(std::string_view text, std::string_view what) {
  const std::string_view all = trimmed(text);
  const std::string_view digits = all.substr(0, all.find_first_not_of("0123456789."));
  const auto unit = unit_bytes(trimmed(all.substr(digits.size())));
  const auto count = unit && digits.find_first_of("0123456789") != std::string_view::npos
                         ? scaled(digits, *unit)
                         : std::nullopt;
  if (!count && all.find(',') != std::string_view::npos) {
    throw UserError(fmt::format(
        "{}: \"{}\" has a comma; write a fraction with a point, such as 1.5GiB", what, text));
  }
  if (!count) {
    throw UserError(fmt::format(
        "{}: \"{}\" is not a number of bytes; give one such as 12GiB, 1.5 GiB, 900MB or 4096", what,
        text));
  }
  return {*count};
}

}  // namespace spillway
