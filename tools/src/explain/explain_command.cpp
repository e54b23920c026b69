// SPDX-License-Identifier: Apache-2.0
#include "explain/explain_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "explain/plan_decisions.hpp"
#include "explain/storage_uses.hpp"
#include "spillway/base/error.hpp"
#include "spillway/plan/plan_io.hpp"
#include "text/progress_line.hpp"

namespace spillway::tools {
namespace {

using AboutStorage = ExplanationAnswer::AboutStorage;
using CopyTimes = ExplanationAnswer::CopyTimes;
using Kept = ExplanationAnswer::Kept;

std::string trace_path_of(const PlanningRequest& request, const Plan& plan) {
  namespace fs = std::filesystem;
  if (request.trace_path) return *request.trace_path;
  if (plan.trace.empty()) {
    throw UserError(
        fmt::format("plan {} does not name its trace: give --trace FILE.", request.files.front()));
  }
  std::error_code error;
  if (fs::exists(plan.trace, error)) return plan.trace;
  // Plan and trace may have moved together.
  return (fs::path(request.files.front()).parent_path() / fs::path(plan.trace).filename()).string();
}

class Explainer {
 public:
  /// All are borrowed.
  Explainer(const PlanningInputs& inputs, const PlanDecisions& decisions, const StorageUses& uses,
            OtherOutcomes& others)
      : inputs_(inputs), decisions_(decisions), uses_(uses), others_(others) {}

  AboutStorage about(const Decision& decision) {
    AboutStorage about{.decision = decision,
                       .origin = decisions_.origin(decision.storage),
                       .unneeded_ns = unneeded(decision),
                       .copies = copies_of(decision.storage),
                       .kept = {},
                       .otherwise = others_.of(decision)};
    if (decision.is_kept()) about.kept = kept(decision.storage);
    return about;
  }

 private:
  [[nodiscard]] TimeNs unneeded(const Decision& decision) const {
    if (decision.is_kept()) {
      const auto longest = uses_.longest(decision.storage);
      return longest ? longest->ns : 0;
    }
    const auto around = [&](OpIndex at) { return uses_.around(decision.storage, at).ns; };
    TimeNs longest = 0;
    if (decision.place && !decision.place->on(Tier::kDevice)) longest = around(OpIndex{0});
    for (const PlanAction& action : decision.actions) {
      if (action.kind == PlanActionKind::kEvict || action.kind == PlanActionKind::kDrop) {
        longest = std::max(longest, around(action.at));
      }
    }
    return longest;
  }

  [[nodiscard]] std::optional<CopyTimes> copies_of(StorageId storage) const {
    // A machine that trains on its processor copies between memory and disk.
    const bool has_host = inputs_.machine.link(LinkKind::kDeviceToHost).has_value();
    const auto& out =
        inputs_.machine.link(has_host ? LinkKind::kDeviceToHost : LinkKind::kHostToDisk);
    const auto& in =
        inputs_.machine.link(has_host ? LinkKind::kHostToDevice : LinkKind::kDiskToHost);
    if (!out || !in) return std::nullopt;
    const Bytes bytes = inputs_.trace.storages.bytes[to_value(storage)];
    return CopyTimes{copy_time(*out, bytes), copy_time(*in, bytes)};
  }

  [[nodiscard]] Kept kept(StorageId storage) const {
    const auto stretch = uses_.longest(storage);
    if (!stretch) {
      const bool used = !uses_.of(storage).empty();
      return {.because = used ? KeptBecause::kAlwaysNeeded : KeptBecause::kUnused,
              .alive = {},
              .idle_ns = {}};
    }
    Kept kept{.because = KeptBecause::kOthersMakeRoom,
              .alive = uses_.most_alive(*stretch),
              .idle_ns = stretch->ns};
    const auto copies = copies_of(storage);
    if (kept.alive <= inputs_.problem().budgets[Tier::kDevice]) {
      kept.because = KeptBecause::kNothingBinds;
    } else if (copies && copies->out + copies->in > stretch->ns) {
      kept.because = KeptBecause::kDearToMove;
    }
    return kept;
  }

  const PlanningInputs& inputs_;
  const PlanDecisions& decisions_;
  const StorageUses& uses_;
  OtherOutcomes& others_;
};

/// Fills in what the request asks about, the first `top` of each kind.
void explain_asked(const PlanningRequest& request, const Plan& plan, ExplanationAnswer& answer) {
  const StorageUses uses(answer.inputs.trace);
  const PlanDecisions of_plan(answer.inputs.trace, plan, uses);
  of_plan.refuse_what_is_not_there(request);
  OtherOutcomes others(answer.inputs, plan, uses);
  Explainer explainer(answer.inputs, of_plan, uses, others);
  std::vector<Decision> decisions = of_plan.about_storages(request);
  std::vector<PlanAction> choices = of_plan.choices(request);
  answer.step_ns = others.step_ns();
  answer.storages_found = decisions.size();
  answer.ops_found = choices.size();
  decisions.resize(std::min(decisions.size(), request.top));
  choices.resize(std::min(choices.size(), request.top));
  ProgressLine progress(decisions.size() + choices.size(), "explaining");
  for (const Decision& decision : decisions) {
    progress.begin(fmt::format("storage {}", to_value(decision.storage)));
    answer.storages.push_back(explainer.about(decision));
  }
  for (const PlanAction& choice : choices) {
    progress.begin(fmt::format("op {}", to_value(choice.op)));
    answer.ops.push_back({choice, others.without(choice)});
  }
}

}  // namespace

ExplanationAnswer explain_plan(const PlanningRequest& request) {
  const Plan plan = read_plan(request.files.front());
  ExplanationAnswer answer;
  answer.inputs = read_planned_inputs(request, plan, trace_path_of(request, plan));
  answer.planner = plan.planner;
  if (plan.structure != structure_hash(answer.inputs.trace)) {
    throw UserError(fmt::format("plan {} was made for another trace: give --trace FILE.",
                                request.files.front()));
  }
  explain_asked(request, plan, answer);
  return answer;
}

}  // namespace spillway::tools
