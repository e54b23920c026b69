// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "demand_pager.hpp"
#include "gap_planner.hpp"
#include "planner/planners.hpp"

namespace spillway::planning {
namespace {

constexpr std::array<std::string_view, 2> kVictims{"furthest", "least-recent"};
const std::array<OptionField, 1> kOptions{
    OptionField{.name = "victims",
                .meaning = "Which storages leave first: those used again last, or those used least "
                           "recently.",
                .fallback = std::string("furthest"),
                .words = kVictims}};

class LruPlanner final : public Planner {
 public:
  [[nodiscard]] std::string_view name() const override { return "lru"; }
  [[nodiscard]] std::string_view summary() const override {
    return "Fetches what an op lacks when it begins, as the runtime does without a plan.";
  }
  [[nodiscard]] std::span<const OptionField> options() const override { return kOptions; }

  [[nodiscard]] PlanOutcome plan(const Problem& problem, const Options& options,
                                 const PlanningContext& context) const override {
    const VictimOrder order = options.get<std::string>("victims") == "furthest"
                                  ? VictimOrder::kFurthestNextUse
                                  : VictimOrder::kLeastRecentlyUsed;
    const std::string label = label_of(*this, options);
    return outcome_of(problem, context,
                      [&](const Problem& given, const StepModel& model) -> std::optional<Plan> {
                        const auto draft = page_on_demand(model, order);
                        if (!draft) return std::nullopt;
                        return checked_plan(given, model, *draft, label);
                      });
  }
};

}  // namespace

const Planner& lru_planner() {
  static const LruPlanner planner;
  return planner;
}

}  // namespace spillway::planning
