// SPDX-License-Identifier: Apache-2.0
// J. Wei, A. Qiao, A. Jayarajan, G. Gibson, V. Vasudevan, E. Xing, "Training larger models on
// TensorFlow without additional GPU" (TensorFlowMem), SysML 2018. See docs/planners/README.md.
#include <algorithm>
#include <array>

#include "planner/gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

const std::array kFields{
    OptionField{"partition-size", "Ops of a partition; 0: the largest of some sizes that fits.",
                std::int64_t{0}, 0, 4e9},
    OptionField{"distance", "What is used again more than this many partitions later is swapped.",
                std::int64_t{1}, 1, 4e9},
    OptionField{"ahead", "Copies in are queued this many partitions before the use.",
                std::int64_t{1}, 0, 4e9},
    OptionField{"variables-on-host",
                "Parameters, constants and optimizer state live on the host and are loaded on "
                "demand, one partition ahead.",
                true},
};

constexpr std::array<Row, 8> kSizes{200, 100, 50, 20, 10, 5, 2, 1};

struct Knobs {
  Row size, distance, ahead;
  bool variables_on_host;
};

class Partitioning {
 public:
  Partitioning(const StepModel& model, const Knobs& knobs)
      : table_(model.table), knobs_(knobs), host_(model.has_host()) {}

  [[nodiscard]] Draft draft() const {
    Draft draft(table_);
    if (!host_) return draft;
    for (Row row = 0; row < table_.touches(); ++row) draft.gap[row] = choose(row);
    if (knobs_.variables_on_host) {
      for (Row s = 0; s < table_.storages(); ++s) {
        if (table_.predecessor(s) == s && table_.first_touch(s) == kNoRow) {
          draft.idle[s] = Tier::kHost;
        }
      }
    }
    return draft;
  }

 private:
  [[nodiscard]] Row partition(Row op) const { return op / knobs_.size; }

  // Swapping out is queued at the end of the partition of the last use, swapping in at the
  // beginning of the partition `ahead` of the next.
  [[nodiscard]] GapChoice choose(Row row) const {
    const GapEnd end = end_of_gap(table_, row);
    if (end.touch == kNoRow) return {};
    const Row ops = table_.ops();
    const Row last = table_.op_of(row);
    const Row next = table_.op_of(end.touch);
    const Row out = std::min((partition(last) + 1) * knobs_.size, ops);
    const bool lives_on = table_.successor(table_.touch(row).storage) != kNoRow;
    if (end.wraps) {
      if (!knobs_.variables_on_host) return {};
      const Row ahead = partition(next) < knobs_.ahead ? 0 : partition(next) - knobs_.ahead;
      return {.remedy = Remedy::kHost, .out_at = out, .in_at = ops + ahead * knobs_.size};
    }
    if (lives_on && !knobs_.variables_on_host) return {};
    if (partition(next) - partition(last) <= knobs_.distance) return {};
    const Row ahead = partition(next) - std::min(knobs_.ahead, partition(next));
    const Row in = std::min(std::max(ahead * knobs_.size, out), next);
    return {.remedy = Remedy::kHost, .out_at = out, .in_at = in};
  }

  const AccessTable& table_;
  Knobs knobs_;
  bool host_;
};

class PartitionedPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "partitioned"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Cuts the step into partitions, swaps what is used more than some partitions later and "
           "keeps variables on the host (TensorFlowMem, Wei et al. 2018).";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kFields; }

  using Planner::plan;
  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const std::string label = label_of(*this, options);
    const auto whole = [&](std::string_view field) {
      return static_cast<Row>(options.get<std::int64_t>(field));
    };
    Knobs knobs{whole("partition-size"), whole("distance"), whole("ahead"),
                options.get<bool>("variables-on-host")};
    return outcome_of(problem, context,
                      [&](const Problem& p, const StepModel& m) -> std::optional<Plan> {
                        for (const Row size : kSizes) {
                          Knobs tried = knobs;
                          if (knobs.size == 0) tried.size = size;
                          const Draft draft = Partitioning(m, tried).draft();
                          if (fits(m, draft)) return checked_plan(p, m, draft, label);
                          if (knobs.size != 0) break;
                        }
                        return std::nullopt;
                      });
  }
};

}  // namespace

const Planner& partitioned_planner() {
  static const PartitionedPlanner planner;
  return planner;
}

}  // namespace spillway::planning
