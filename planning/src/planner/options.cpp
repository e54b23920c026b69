// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"
#include "spillway/planning/planner.hpp"

namespace spillway::planning {
namespace {

[[noreturn]] void refuse(const OptionField& field, std::string_view text,
                         std::string_view expected) {
  throw UserError(fmt::format("{} \"{}\" is not {}.", field.name, text, expected));
}

std::string range_of(const OptionField& field) {
  if (field.most == std::numeric_limits<double>::max()) {
    return fmt::format("from {} up", field.least);
  }
  return fmt::format("from {} to {}", field.least, field.most);
}

template <typename Number>
Number parse_number(const OptionField& field, std::string_view text, std::string_view kind) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    refuse(field, text, fmt::format("a {} {}", kind, range_of(field)));
  }
  return number;
}

OptionValue parse_value(const OptionField& field, std::string_view text) {
  if (std::holds_alternative<std::int64_t>(field.fallback)) {
    return parse_number<std::int64_t>(field, text, "whole number");
  }
  if (std::holds_alternative<double>(field.fallback)) {
    return parse_number<double>(field, text, "number");
  }
  if (std::holds_alternative<std::string>(field.fallback)) return std::string(text);
  if (text != "on" && text != "off") refuse(field, text, "on or off");
  return text == "on";
}

bool in_range(const OptionField& field, const OptionValue& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    return static_cast<double>(*whole) >= field.least && static_cast<double>(*whole) <= field.most;
  }
  if (const auto* real = std::get_if<double>(&value)) {
    return *real >= field.least && *real <= field.most;
  }
  if (const auto* word = std::get_if<std::string>(&value)) {
    return field.words.empty() ||
           std::find(field.words.begin(), field.words.end(), *word) != field.words.end();
  }
  return true;
}

}  // namespace

std::string to_string(const OptionValue& value) {
  if (const auto* truth = std::get_if<bool>(&value)) return *truth ? "on" : "off";
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
  return std::get<std::string>(value);
}

Options::Options(std::span<const OptionField> fields) : fields_(fields) {
  values_.reserve(fields.size());
  for (const OptionField& field : fields) values_.push_back(field.fallback);
}

std::size_t Options::row_of(std::string_view name) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const OptionField& field) { return field.name == name; });
  if (found != fields_.end()) return static_cast<std::size_t>(found - fields_.begin());
  std::vector<std::string_view> names;
  for (const OptionField& field : fields_) names.push_back(field.name);
  throw UserError(
      fmt::format("The planner has no option \"{}\".{}", name, suggestion(name, names)));
}

void Options::set(std::string_view name, std::string_view text) {
  set(name, parse_value(fields_[row_of(name)], text));
}

void Options::set(std::string_view name, OptionValue value) {
  const std::size_t row = row_of(name);
  const OptionField& field = fields_[row];
  if (value.index() != field.fallback.index()) {
    refuse(field, to_string(value), fmt::format("like its default, {}", to_string(field.fallback)));
  }
  if (!in_range(field, value)) {
    refuse(field, to_string(value),
           field.words.empty() ? range_of(field)
                               : fmt::format("one of {}", fmt::join(field.words, ", ")));
  }
  values_[row] = std::move(value);
}

std::string Options::changes() const {
  std::string text;
  for (std::size_t row = 0; row < fields_.size(); ++row) {
    if (values_[row] == fields_[row].fallback) continue;
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : " ", fields_[row].name, to_string(values_[row]));
  }
  return text;
}

}  // namespace spillway::planning
