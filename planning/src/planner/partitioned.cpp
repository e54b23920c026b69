// SPDX-License-Identifier: Apache-2.0
// J. Wei, A. Qiao, A. Jayarajan, G. Gibson, V. Vasudevan, E. Xing, "Training larger models on
// TensorFlow without additional GPU" (TensorFlowMem), SysML 2018. See docs/planners/README.md.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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
  Row distance, ahead;
  bool variables_on_host;
};

// The step in runs of ops.
class Cut {
 public:
  // Runs of `size` ops; none goes on into another partition of whoever runs the step, if it has
  // any.
  Cut(Row ops, Row size, std::span<const std::uint32_t> partitions) : ops_(ops) {
    Row left = 0;
    for (Row op = 0; op < ops; ++op) {
      const bool ends = !partitions.empty() && op != 0 && partitions[op] != partitions[op - 1];
      if (left == 0 || ends) {
        begins_.push_back(op);
        left = size;
      }
      --left;
      partition_of_.push_back(static_cast<Row>(begins_.size()) - 1);
    }
  }

  [[nodiscard]] Row partition(Row op) const { return partition_of_[op]; }
  // For one more than the last, the number of ops.
  [[nodiscard]] Row begin(Row partition) const {
    return partition < begins_.size() ? begins_[partition] : ops_;
  }

 private:
  Row ops_;
  std::vector<Row> begins_;
  std::vector<Row> partition_of_;
};

class Partitioning {
 public:
  Partitioning(const StepModel& model, const Cut& cut, const Knobs& knobs)
      : table_(model.table), cut_(cut), knobs_(knobs), host_(model.has_host()) {}

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
  // Swapping out is queued at the end of the partition of the last use, swapping in at the
  // beginning of the partition `ahead` of the next.
  [[nodiscard]] GapChoice choose(Row row) const {
    const GapEnd end = end_of_gap(table_, row);
    if (end.touch == kNoRow) return {};
    const Row last = cut_.partition(table_.op_of(row));
    const Row use = table_.op_of(end.touch);
    const Row next = cut_.partition(use);
    const Row out = cut_.begin(last + 1);
    const Row ahead = cut_.begin(next - std::min(knobs_.ahead, next));
    const bool lives_on = table_.successor(table_.touch(row).storage) != kNoRow;
    if (end.wraps) {
      if (!knobs_.variables_on_host) return {};
      return {.remedy = Remedy::kHost, .out_at = out, .in_at = table_.ops() + ahead};
    }
    if (lives_on && !knobs_.variables_on_host) return {};
    if (next - last <= knobs_.distance) return {};
    return {.remedy = Remedy::kHost, .out_at = out, .in_at = std::min(std::max(ahead, out), use)};
  }

  const AccessTable& table_;
  const Cut& cut_;
  Knobs knobs_;
  bool host_;
};

// The sizes of partitions to try, the largest first.
std::vector<Row> sizes(Row asked, Row ops, bool is_cut) {
  if (is_cut && asked != 0) return {ops};  // by whoever runs the step, as asked
  if (asked != 0) return {asked};
  std::vector<Row> tried(kSizes.begin(), kSizes.end());
  if (is_cut) tried.insert(tried.begin(), ops);
  return tried;
}

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
    const Knobs knobs{whole("distance"), whole("ahead"), options.get<bool>("variables-on-host")};
    const auto attempt = [&](const Problem& p, const StepModel& m) -> std::optional<Plan> {
      const Row ops = m.table.ops();
      for (const Row size : sizes(whole("partition-size"), ops, !context.partitions.empty())) {
        const Cut cut(ops, size, context.partitions);
        const Draft draft = Partitioning(m, cut, knobs).draft();
        if (fits(m, draft)) return checked_plan(p, m, draft, label);
      }
      return std::nullopt;
    };
    return outcome_of(problem, context, attempt);
  }
};

}  // namespace

const Planner& partitioned_planner() {
  static const PartitionedPlanner planner;
  return planner;
}

}  // namespace spillway::planning
