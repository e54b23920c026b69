// SPDX-License-Identifier: Apache-2.0
// The interface of every planner: a problem and options in, a plan or the reason why there is none
// out.
//
// Options are named fields, each with a sentence: they are the flags of `spillway plan`, the table
// in docs/planners and what the ablation tests go through. A planner declares its fields once; the
// values it is given are checked against them before it runs.
//
// Planners know no clock. One that searches until its time is up asks the clock it is handed, so
// that a test can count looks instead of seconds. Planners are immutable and may be used by several
// threads at once. Errors: UserError for an option that does not exist or is out of range; that no
// plan fits is an answer, Infeasible.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spillway/base/ids.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"

namespace spillway::planning {

/// Why there is no plan, and with what there would be one.
struct Infeasible {
  OpIndex op{};  ///< that binds
  /// With so many bytes more on that tier alone there is a plan, or, where only the device could
  /// help and no budget of it does, an op would fit; 0: of no help, or not looked for.
  std::array<Bytes, kTierCount> short_by{};
  /// A device budget for which this planner has a plan, the least it tried, the others unchanged;
  /// nothing where no device budget would do.
  std::optional<Bytes> smallest_budget{};
  std::vector<std::string> remedies{};  ///< sentences: what would help

  bool operator==(const Infeasible&) const = default;
};

using PlanOutcome = std::variant<Plan, Infeasible>;

/// A truth, a whole number, a real number or one of several words.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;

/// One option of a planner. The kind of its value is that of `fallback`.
struct OptionField {
  std::string_view name;     ///< `swap-threshold`: the flag is `--swap-threshold`
  std::string_view meaning;  ///< one sentence
  OptionValue fallback;
  double least = 0;  ///< of a number
  double most = std::numeric_limits<double>::max();
  std::span<const std::string_view> words{};  ///< that a text may be; none: any text
};

/// Values for a planner's fields. Every field has one: its fallback until another is set.
class Options {
 public:
  explicit Options(std::span<const OptionField> fields);

  /// From text: `on`/`off`, a number, a word. Throws UserError naming field, text and range.
  void set(std::string_view name, std::string_view text);
  void set(std::string_view name, OptionValue value);

  /// Value is bool, std::int64_t, double or std::string: the kind of the field.
  template <typename Value>
  [[nodiscard]] const Value& get(std::string_view name) const {
    return std::get<Value>(values_[row_of(name)]);
  }

  /// `threshold=4 ahead=2`: what differs from the fallbacks; empty if nothing does.
  [[nodiscard]] std::string changes() const;

 private:
  [[nodiscard]] std::size_t row_of(std::string_view name) const;

  std::span<const OptionField> fields_;  // of the planner, which lives as long as the program
  std::vector<OptionValue> values_;
};

std::string to_string(const OptionValue& value);

/// The means of a run of a planner beside the problem.
struct PlanningContext {
  /// Nanoseconds of a monotonic clock, asked rarely enough to cost nothing.
  std::function<TimeNs()> now = [] { return TimeNs{0}; };
  /// The time by that clock, from the call on, at which searches stop. Work that must be done is
  /// done.
  TimeNs time_limit_ns = 2'000'000'000;
  /// Other planners' plans for the same problem, to start a search from.
  std::span<const Plan> seeds{};
  /// The partition of each op, where whoever runs the step has cut it into such that run one after
  /// the other: from 0, none below that of the op before. Empty: a planner may cut as it likes.
  std::span<const std::uint32_t> partitions{};
  /// Whether to find out, where there is no plan, with what there would be one: takes several times
  /// as long as the plan.
  bool explain = true;
  /// How far the work is, from 0 to 1, and what is being done.
  std::function<void(double, std::string_view)> progress = [](double, std::string_view) {};
};

class Planner {
 public:
  virtual ~Planner() = default;

  /// As on the command line: `swap-critical-path`.
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// One sentence: what it decides, and from which paper.
  [[nodiscard]] virtual std::string_view summary() const = 0;
  /// The fields have static duration.
  [[nodiscard]] virtual std::span<const OptionField> options() const { return {}; }

  [[nodiscard]] virtual PlanOutcome plan(const Problem& problem, const Options& options,
                                         const PlanningContext& context) const = 0;

  /// With all options at their fallbacks.
  [[nodiscard]] PlanOutcome plan(const Problem& problem) const {
    return plan(problem, Options(options()), PlanningContext{});
  }
};

}  // namespace spillway::planning
