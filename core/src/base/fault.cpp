// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/fault.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"

namespace spillway {
namespace {

struct Rule {
  Fault fault;
  std::uint64_t first = 1;  ///< counted from 1
  bool later_too = false;
};

struct Point {
  explicit Point(std::string_view its_name) : name(its_name) {}

  std::string name;
  std::vector<Rule> rules;
  std::atomic<std::uint64_t> calls{0};
};

using Points = std::vector<std::unique_ptr<Point>>;

// Readers take no lock: a process may fork while another of its threads stands in fault_at. So what
// was once armed is never freed; arming happens a few times in a test.
std::atomic<const Points*> armed{nullptr};

constexpr std::array<std::pair<std::string_view, int>, 21> kErrors{{
    {"E2BIG", E2BIG},           {"EACCES", EACCES}, {"EAGAIN", EAGAIN}, {"EBADF", EBADF},
    {"EBUSY", EBUSY},           {"EDQUOT", EDQUOT}, {"EFAULT", EFAULT}, {"EFBIG", EFBIG},
    {"EINTR", EINTR},           {"EINVAL", EINVAL}, {"EIO", EIO},       {"EMFILE", EMFILE},
    {"ENFILE", ENFILE},         {"ENODEV", ENODEV}, {"ENOENT", ENOENT}, {"ENOMEM", ENOMEM},
    {"ENOSPC", ENOSPC},         {"ENOSYS", ENOSYS}, {"EPERM", EPERM},   {"EROFS", EROFS},
    {"EOPNOTSUPP", EOPNOTSUPP},
}};

[[noreturn]] void throw_malformed(std::string_view rule, const std::string& reason) {
  throw UserError(
      fmt::format("SPILLWAY_FAULTS: \"{}\": {} A fault is point=ERRNO|short|delay:TIME@N, with + "
                  "after N for every later call too, such as spool.write=EIO@3.",
                  rule, reason));
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

/// Reads the digits that `text` begins with and drops them; nothing where there are none.
template <typename Number>
std::optional<Number> take_number(std::string_view& text) {
  Number value{};
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return value;
}

Fault parse_delay(std::string_view rule, std::string_view text) {
  const auto amount = take_number<std::int64_t>(text);
  std::int64_t unit_us = 0;
  if (text.empty() || text == "us") unit_us = 1;
  if (text == "ms") unit_us = 1'000;
  if (text == "s") unit_us = 1'000'000;
  std::int64_t delay_us = 0;
  if (!amount || unit_us == 0 || __builtin_mul_overflow(*amount, unit_us, &delay_us)) {
    throw_malformed(rule, "a delay is a whole number of us, ms or s.");
  }
  return {.delay_us = delay_us};
}

Fault parse_action(std::string_view rule, std::string_view action) {
  constexpr std::string_view kDelay = "delay:";
  if (action == "short") return {.short_io = true};
  if (action.substr(0, kDelay.size()) == kDelay) {
    return parse_delay(rule, action.substr(kDelay.size()));
  }
  std::array<std::string_view, kErrors.size()> names;
  for (std::size_t i = 0; i < kErrors.size(); ++i) {
    if (kErrors[i].first == action) return {.error = kErrors[i].second};
    names[i] = kErrors[i].first;
  }
  throw_malformed(rule, fmt::format("\"{}\" is no error that can be acted out.{}", action,
                                    suggestion(action, names)));
}

std::pair<std::string_view, Rule> parse_rule(std::string_view text) {
  const auto equals = text.find('=');
  const auto at = text.rfind('@');
  if (equals == std::string_view::npos || at == std::string_view::npos || at < equals) {
    throw_malformed(text, "it lacks = or @.");
  }
  const std::string_view name = trimmed(text.substr(0, equals));
  if (name.empty() ||
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_.") != std::string_view::npos) {
    throw_malformed(text, "a point is named in lower-case letters, \"_\" and \".\".");
  }
  Rule rule;
  rule.fault = parse_action(text, trimmed(text.substr(equals + 1, at - equals - 1)));
  std::string_view when = trimmed(text.substr(at + 1));
  rule.later_too = !when.empty() && when.back() == '+';
  if (rule.later_too) when.remove_suffix(1);
  const auto first = take_number<std::uint64_t>(when);
  if (!first || *first == 0 || !when.empty()) {
    throw_malformed(text, "calls are counted 1, 2, 3.");
  }
  rule.first = *first;
  return {name, rule};
}

Point& point_named(Points& points, std::string_view name) {
  for (const auto& point : points) {
    if (point->name == name) return *point;
  }
  return *points.emplace_back(std::make_unique<Point>(name));
}

Points parse_faults(std::string_view specification) {
  Points points;
  while (!specification.empty()) {
    const auto comma = specification.find(',');
    const std::string_view text = trimmed(specification.substr(0, comma));
    specification.remove_prefix(comma == std::string_view::npos ? specification.size() : comma + 1);
    if (text.empty()) continue;
    const auto [name, rule] = parse_rule(text);
    point_named(points, name).rules.push_back(rule);
  }
  return points;
}

std::optional<Fault> fault_of(const Point& point, std::uint64_t call) {
  std::optional<Fault> result;
  for (const Rule& rule : point.rules) {
    if (call != rule.first && !(rule.later_too && call > rule.first)) continue;
    Fault& fault = result ? *result : result.emplace();
    if (fault.error == 0) fault.error = rule.fault.error;
    fault.short_io |= rule.fault.short_io;
    fault.delay_us += rule.fault.delay_us;
  }
  return result;
}

}  // namespace

std::optional<Fault> fault_at(std::string_view point) {
  const Points* const points = armed.load(std::memory_order_acquire);
  if (points == nullptr) [[likely]]
    return std::nullopt;
  for (const auto& candidate : *points) {
    if (candidate->name == point) {
      return fault_of(*candidate, candidate->calls.fetch_add(1, std::memory_order_relaxed) + 1);
    }
  }
  return std::nullopt;
}

void arm_faults(std::string_view specification) {
  static std::mutex mutex;
  static auto* const ever_armed = new std::vector<std::unique_ptr<const Points>>();
  Points points = parse_faults(specification);
  const std::lock_guard lock(mutex);
  if (points.empty()) {
    armed.store(nullptr, std::memory_order_release);
    return;
  }
  ever_armed->push_back(std::make_unique<const Points>(std::move(points)));
  armed.store(ever_armed->back().get(), std::memory_order_release);
}

}  // namespace spillway
