// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "demand_pager.hpp"
#include "gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

// 10 to 50 us were measured for a fault that brings in 64 KiB (docs/planners/README.md).
constexpr std::int64_t kFaultNs = 25'000;
constexpr double kMostFaultNs = 1e9;

const std::array<OptionField, 1> kOptions{OptionField{
    .name = "fault-ns",
    .meaning = "What a page fault costs for every 64 KiB, in nanoseconds, on top of the "
               "copy.",
    .fallback = kFaultNs,
    .least = 0,
    .most = kMostFaultNs}};

class UnifiedMemoryPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "unified-memory"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Pages on demand with a fault for every 64 KiB and no prefetch: CUDA's unified memory.";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kOptions; }

  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const std::string label = label_of(*this, options);
    PlanOutcome outcome = outcome_of(
        problem, context, [&](const Problem& given, const StepModel& model) -> std::optional<Plan> {
          const auto draft = page_on_demand(model, VictimOrder::kLeastRecentlyUsed);
          if (!draft) return std::nullopt;
          return checked_plan(given, model, *draft, label);
        });
    if (Plan* const plan = std::get_if<Plan>(&outcome)) {
      plan->page_fault_ns = options.get<std::int64_t>("fault-ns");
    }
    return outcome;
  }
};

}  // namespace

const Planner& unified_memory_planner() {
  static const UnifiedMemoryPlanner planner;
  return planner;
}

}  // namespace spillway::planning
