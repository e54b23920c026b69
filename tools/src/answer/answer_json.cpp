// SPDX-License-Identifier: Apache-2.0
// Members have the names of the values' members; docs/command-line.md and docs/simulator.md list
// them.
#include <utility>
#include <vector>

#include "answer/planning_answer.hpp"
#include "plan/trace_events.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {
namespace {

// --- parts of answers ---

Json budgets_json(const Budgets& budgets) {
  Json json = Json::object();
  for (const Tier tier : kTiers) json[std::string(to_string(tier))] = budgets[tier].count;
  return json;
}

/// Adds what an answer is about: `machine`, `recorded_on`, `recorded_elsewhere`, `durations`,
/// `workspace_margin`.
void add_inputs(Json& json, const PlanningInputs& inputs) {
  json["machine"] = inputs.machine.name;
  json["recorded_on"] = inputs.trace.machine;
  json["recorded_elsewhere"] =
      !inputs.trace.machine.empty() && !recorded_on(inputs.trace, inputs.machine);
  json["durations"] = to_string(inputs.durations.are);
  json["workspace_margin"] = inputs.budgets.margin.count;
}

/// `binds` is a cause, or `computing` where the ops alone bind.
Json bound_json(const planning::LowerBound& bound) {
  Json extra = Json::object();
  for (std::size_t cause = 0; cause < planning::kBoundCauseCount; ++cause) {
    extra[std::string(to_string(static_cast<planning::BoundCause>(cause)))] = bound.extra_ns[cause];
  }
  return Json{{"step_ns", bound.step_ns},
              {"compute_ns", bound.compute_ns},
              {"binds", bound.binds ? to_string(*bound.binds) : std::string_view("computing")},
              {"extra_ns", std::move(extra)}};
}

Json failure_json(const planning::SimulationFailure& failure) {
  return Json{{"feasible", false},
              {"op", to_value(failure.op)},
              {"tier", to_string(failure.tier)},
              {"need", failure.need.count},
              {"have", failure.have.count},
              {"short", failure.short_by().count},
              {"reason", failure.reason}};
}

Json span_json(const planning::TimelineSpan& span) {
  Json json{{"kind", word_of(span.kind)},
            {"begin", span.begin},
            {"end", span.end},
            {"op", to_value(span.op)}};
  if (span.storage != kNoStorage) json["storage"] = to_value(span.storage);
  if (span.kind == planning::TimelineSpan::Kind::kCopy) json["link"] = to_string(span.link);
  if (span.kind == planning::TimelineSpan::Kind::kStall) json["cause"] = to_string(span.cause);
  return json;
}

/// For each role that the device ever holds its bytes, one for each level.
Json roles_json(const std::vector<planning::TimelineLevel>& levels) {
  Json json = Json::object();
  for (std::size_t role = 0; role < kStorageRoleCount; ++role) {
    Json held = Json::array();
    bool any = false;
    for (const planning::TimelineLevel& level : levels) {
      any = any || level.on_device[role] != Bytes{0};
      held.push_back(level.on_device[role].count);
    }
    if (any) json[std::string(to_string(static_cast<StorageRole>(role)))] = std::move(held);
  }
  return json;
}

Json timeline_json(const planning::Timeline& timeline) {
  Json spans = Json::array();
  for (const planning::TimelineSpan& span : timeline.spans) spans.push_back(span_json(span));
  Json levels = Json::array();
  for (const planning::TimelineLevel& level : timeline.levels) {
    levels.push_back(
        {level.time, level.bytes[0].count, level.bytes[1].count, level.bytes[2].count});
  }
  return Json{{"spans", std::move(spans)},
              {"levels", std::move(levels)},
              {"roles", roles_json(timeline.levels)}};
}

Json report_json(const planning::SimulationReport& report) {
  Json stalls = Json::object();
  for (std::size_t cause = 0; cause < planning::kStallCauseCount; ++cause) {
    stalls[std::string(to_string(static_cast<planning::StallCause>(cause)))] =
        report.stall_ns[cause];
  }
  Json peaks = Json::object();
  for (const Tier tier : kTiers) {
    const planning::TierPeak& peak = report.peak[index_of(tier)];
    peaks[std::string(to_string(tier))] =
        Json{{"bytes", peak.bytes.count}, {"op", to_value(peak.op)}};
  }
  Json links = Json::object();
  for (const LinkKind kind : kLinks) {
    const planning::LinkUse& use = report.links[index_of(kind)];
    links[std::string(to_string(kind))] =
        Json{{"bytes", use.bytes.count}, {"copies", use.copies}, {"busy_ns", use.busy_ns}};
  }
  return Json{{"feasible", true},
              {"step_ns", report.step_ns},
              {"compute_ns", report.compute_ns},
              {"stall_ns", std::move(stalls)},
              {"peak", std::move(peaks)},
              {"links", std::move(links)},
              {"evictions", report.evictions},
              {"clean_evictions", report.clean_evictions},
              {"fetches", report.fetches},
              {"demand_fetches", report.demand_fetches},
              {"recomputations", report.recomputations},
              {"evicted", report.evicted.count},
              {"clean_evicted", report.clean_evicted.count},
              {"fetched", report.fetched.count},
              {"dropped", report.dropped.count}};
}

Json outcome_json(const Outcome& outcome) {
  if (const auto* step = std::get_if<TimeNs>(&outcome)) {
    return {{"feasible", true}, {"step_ns", *step}};
  }
  return failure_json(std::get<planning::SimulationFailure>(outcome));
}

std::string_view word_of(KeptBecause because) {
  switch (because) {
    case KeptBecause::kUnused:
      return "never-used";
    case KeptBecause::kAlwaysNeeded:
      return "always-needed";
    case KeptBecause::kNothingBinds:
      return "nothing-binds";
    case KeptBecause::kDearToMove:
      return "dear-to-move";
    default:
      return "others-make-room";
  }
}

Json about_json(const ExplanationAnswer::AboutStorage& about, const ExplanationAnswer& answer) {
  const TraceStorages& storages = answer.inputs.trace.storages;
  const std::size_t row = to_value(about.decision.storage);
  Json actions = Json::array();
  for (const PlanAction& action : about.decision.actions) {
    Json entry{{"at", to_value(action.at)}, {"do", to_string(action.kind)}};
    if (action.kind == PlanActionKind::kEvict) entry["tier"] = to_string(action.tier);
    if (action.kind == PlanActionKind::kRecompute) entry["op"] = to_value(action.op);
    actions.push_back(std::move(entry));
  }
  Json json{{"storage", row},
            {"name", std::string(storages.name[row])},
            {"origin", about.origin},
            {"role", to_string(storages.role[row])},
            {"bytes", storages.bytes[row].count},
            {"actions", std::move(actions)},
            {"unneeded_ns", about.unneeded_ns}};
  if (about.kept) json["kept_because"] = word_of(about.kept->because);
  Json others = Json::object();
  for (const auto& [way, outcome] : about.otherwise) {
    others[std::string(to_string(way))] = outcome_json(outcome);
  }
  json["if_kept"] = about.kept ? outcome_json(answer.step_ns) : others["left-alone"];
  json["otherwise"] = std::move(others);
  return json;
}

Json about_json(const ExplanationAnswer::AboutOp& about, const ExplanationAnswer& answer) {
  const TraceOps& ops = answer.inputs.trace.ops;
  const OpAlternative& other = ops.alternatives[about.choice.op][about.choice.alternative];
  const std::size_t op = to_value(about.choice.op);
  return {{"op", op},
          {"name", std::string(ops.name[op])},
          {"alternative", about.choice.alternative},
          {"ns", other.duration_ns},
          {"workspace", other.workspace.count},
          {"recorded_ns", ops.duration_ns[op]},
          {"recorded_workspace", ops.workspace[op].count},
          {"if_recorded", outcome_json(about.if_recorded)}};
}

Json try_json(const LargestBatchAnswer::Try& tried) {
  Json json{{"batch", tried.batch},           {"budget_bytes", tried.budget.count},
            {"peak", tried.peak.count},       {"workspace_margin", tried.margin.count},
            {"compute_ns", tried.compute_ns}, {"feasible", tried.step_ns.has_value()}};
  if (tried.step_ns) {
    json["step_ns"] = *tried.step_ns;
    json["slowdown"] = slowdown_of(*tried.step_ns, tried.compute_ns);
  } else {
    json["short"] = tried.short_by.count;
  }
  return json;
}

// --- answers ---

Json json_of(const PlanAnswer& answer) {
  Json json = report_json(answer.report);
  json["planner"] = answer.planner;
  add_inputs(json, answer.inputs);
  json["budgets"] = budgets_json(answer.inputs.problem().budgets);
  json["bound_ns"] = answer.bound.step_ns;
  json["bound"] = bound_json(answer.bound);
  json["actions"] = answer.actions;
  return json;
}

Json json_of(const NoPlanAnswer& answer) {
  const planning::Infeasible& reason = answer.reason;
  Json missing = Json::object();
  for (const Tier tier : kTiers) {
    missing[std::string(to_string(tier))] = reason.short_by[index_of(tier)].count;
  }
  Json json{{"feasible", false}, {"op", to_value(reason.op)}, {"short", std::move(missing)}};
  json["smallest_budget"] = nullptr;
  if (reason.smallest_budget) json["smallest_budget"] = reason.smallest_budget->count;
  json["remedies"] = reason.remedies;
  return json;
}

Json json_of(const SimulationAnswer& answer) {
  Json json = report_json(answer.report);
  if (answer.timeline) json["timeline"] = timeline_json(answer.report.timeline);
  json["budgets"] = budgets_json(answer.inputs.problem().budgets);
  add_inputs(json, answer.inputs);
  if (answer.bound) {
    json["bound_ns"] = answer.bound->step_ns;
    json["bound"] = bound_json(*answer.bound);
  }
  return json;
}

Json json_of(const FailureAnswer& answer) { return failure_json(answer.failure); }

Json json_of(const ComparisonAnswer& answer) {
  Json points = Json::array();
  Json bounds = Json::array();
  for (const ComparisonAnswer::Column& column : answer.columns) {
    if (column.bound) {
      Json bound = bound_json(*column.bound);
      bound["budget_bytes"] = column.budget.count;
      bounds.push_back(std::move(bound));
    }
    for (const ComparisonAnswer::Cell& cell : column.cells) {
      Json point{{"planner", cell.planner->name()},
                 {"budget_bytes", column.budget.count},
                 {"feasible", cell.step_ns.has_value()}};
      if (cell.step_ns) {
        point["step_ns"] = *cell.step_ns;
        point["on_front"] = cell.on_front;
      } else if (cell.smallest_budget) {
        point["smallest_budget"] = cell.smallest_budget->count;
      }
      points.push_back(std::move(point));
    }
  }
  Json json{{"compute_ns", answer.compute_ns},
            {"points", std::move(points)},
            {"bound", std::move(bounds)}};
  add_inputs(json, answer.inputs);
  json["budgets"] = budgets_json(answer.inputs.problem().budgets);
  json["budgets"].erase(std::string(to_string(Tier::kDevice)));  // a row of them, in `points`
  return json;
}

Json json_of(const ExplanationAnswer& answer) {
  Json json{{"planner", answer.planner}};
  add_inputs(json, answer.inputs);
  json["decisions"] = Json::array();
  for (const auto& about : answer.storages) json["decisions"].push_back(about_json(about, answer));
  json["choices"] = Json::array();
  for (const auto& about : answer.ops) json["choices"].push_back(about_json(about, answer));
  return json;
}

Json json_of(const SmallestBudgetAnswer& answer) {
  Json json{{"slowdown", answer.slowdown},
            {"peak", answer.peak.count},
            {"workspace_known", answer.inputs.trace.workspace_known},
            {"smallest_budget", nullptr}};
  add_inputs(json, answer.inputs);
  if (answer.budget) {
    json["smallest_budget"] = answer.budget->count;
    json["machine_has_it"] = answer.machine_has_it();
  }
  return json;
}

Json json_of(const FitsAnswer& answer) {
  Json list = Json::array();
  for (const FitsAnswer::Row& row : answer.rows) {
    Json entry{{answer.what, row.name},
               {"budget_bytes", row.budget.count},
               {"peak", row.peak.count},
               {"workspace_margin", row.margin.count},
               {"durations", to_string(row.durations)},
               {"feasible", row.step_ns.has_value()}};
    if (row.step_ns) entry["step_ns"] = *row.step_ns;
    list.push_back(std::move(entry));
  }
  return list;
}

Json json_of(const LargestBatchAnswer& answer) {
  Json tries = Json::array();
  for (const LargestBatchAnswer::Try& tried : answer.tries) tries.push_back(try_json(tried));
  return {{"machine", answer.inputs.machine.name},
          {"durations", to_string(answer.inputs.durations.are)},
          {"largest", answer.fitting ? try_json(*answer.fitting) : Json()},
          {"too_large", answer.failing ? try_json(*answer.failing) : Json()},
          {"tries", std::move(tries)}};
}

}  // namespace

std::string answer_json(const PlanningAnswer& answer) {
  return json_text(std::visit([](const auto& one) { return json_of(one); }, answer));
}

}  // namespace spillway::tools
