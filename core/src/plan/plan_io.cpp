// SPDX-License-Identifier: Apache-2.0
#include "spillway/plan/plan_io.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "../base/compressed_text.hpp"
#include "../base/json_rows.hpp"
#include "../base/text_file.hpp"
#include "spillway/base/error.hpp"

namespace spillway {
namespace {

// `recompute` in versions 1 and 2.
constexpr std::string_view kRecomputeBefore3 = "replay";

enum MemberKey : std::size_t {
  kVersion,
  kPlanner,
  kTrace,
  kMachine,
  kDurations,
  kRecordedOn,
  kStructure,
  kDeviceBudget,
  kHostBudget,
  kDiskBudget,
  kMargin,
  kPageFault,
};
constexpr std::array<std::string_view, 12> kMembers{
    "spillway_plan",    "planner",      "trace",         "machine",     "durations",
    "recorded_on",      "structure",    "device_budget", "host_budget", "disk_budget",
    "workspace_margin", "page_fault_ns"};

enum PlaceKey : std::size_t { kPlaceStorage, kPlaceTiers };
constexpr std::array<std::string_view, 2> kPlaceKeys{"storage", "tiers"};

enum ActionKey : std::size_t { kAt, kDo, kStorage, kTier, kOp, kAlternative };
constexpr std::array<std::string_view, 6> kActionKeys{"at",   "do", "storage",
                                                      "tier", "op", "alternative"};

enum OpKey : std::size_t { kSignature };
constexpr std::array<std::string_view, 1> kOpKeys{"signature"};

enum List : std::size_t { kPlaces, kActions, kOps };
constexpr std::array<JsonRows, 3> kRows{JsonRows{"places", "place", kPlaceKeys, 1U << kPlaceTiers},
                                        JsonRows{"actions", "action", kActionKeys, 0},
                                        JsonRows{"ops", "op", kOpKeys, 0}};

constexpr std::uint64_t kMostTime = ~std::uint64_t{0} >> 1;

/// The fields that an action of the kind has beside `at` and `do`.
constexpr std::uint32_t fields_of(PlanActionKind kind) {
  switch (kind) {
    case PlanActionKind::kEvict:
      return 1U << kStorage | 1U << kTier;
    case PlanActionKind::kRecompute:
      return 1U << kOp;
    case PlanActionKind::kChoose:
      return 1U << kOp | 1U << kAlternative;
    default:
      return 1U << kStorage;
  }
}

Tier parse_tier(std::string_view key, std::string_view text) {
  const auto found = std::find_if(kTiers.begin(), kTiers.end(),
                                  [&](Tier tier) { return to_string(tier) == text; });
  if (found == kTiers.end()) {
    throw UserError(fmt::format("\"{}\" is \"{}\", which is no tier", key, text));
  }
  return *found;
}

class PlanTarget final : public JsonRowTarget {
 public:
  void on_member(std::size_t key, const JsonScalar& value) override {
    const std::string_view name = kMembers[key];
    switch (key) {
      case kVersion:
        version_ = value.as_whole(name);
        if (version_ >= 1 && version_ <= kPlanVersion) return;
        throw UserError(fmt::format("it has version {}; this Spillway reads versions 1 to {}",
                                    version_, kPlanVersion));
      case kPlanner:
        plan_.planner = value.as_text(name);
        return;
      case kTrace:
        plan_.trace = value.as_text(name);
        return;
      case kMachine:
        plan_.machine = value.as_text(name);
        return;
      case kDurations: {
        const std::string_view word = value.as_text(name);
        plan_.durations = parse_durations(word);
        if (plan_.durations) return;
        throw UserError(
            fmt::format("\"{}\" is \"{}\", neither recorded nor estimated", name, word));
      }
      case kRecordedOn:
        plan_.recorded_on = value.as_text(name);
        return;
      case kStructure:
        plan_.structure = value.as_hex(name);
        return;
      case kMargin:
        plan_.workspace_margin = {value.as_whole(name)};
        return;
      case kPageFault:
        plan_.page_fault_ns = static_cast<TimeNs>(value.as_whole(name, kMostTime));
        return;
      default:
        plan_.budgets.bytes[key - kDeviceBudget] = {value.as_whole(name)};
    }
  }

  void on_row(std::size_t /*rows*/) override {
    place_ = {};
    action_ = {};
    signature_ = 0;
  }

  void on_field(std::size_t rows, std::size_t key, const JsonScalar& value) override {
    if (rows == kPlaces) {
      place_.storage = StorageId{value.as_whole(kPlaceKeys[key])};
      return;
    }
    if (rows == kOps) {
      signature_ = value.as_hex(kOpKeys[key]);
      return;
    }
    const std::string_view name = kActionKeys[key];
    switch (key) {
      case kAt:
        action_.at = OpIndex{value.as_whole(name)};
        return;
      case kDo: {
        const std::string_view word = value.as_text(name);
        const auto kind =
            word == kRecomputeBefore3 ? PlanActionKind::kRecompute : parse_plan_action_kind(word);
        if (!kind) throw UserError(fmt::format("\"do\" is \"{}\", which is no action", word));
        action_.kind = *kind;
        return;
      }
      case kStorage:
        action_.storage = StorageId{value.as_whole(name)};
        return;
      case kTier:
        action_.tier = parse_tier(name, value.as_text(name));
        return;
      case kOp:
        action_.op = OpIndex{value.as_whole(name)};
        return;
      default:
        action_.alternative = static_cast<std::uint32_t>(value.as_whole(name, ~std::uint32_t{0}));
    }
  }

  void on_item(std::size_t /*rows*/, std::size_t key, const JsonScalar& value) override {
    place_.add(parse_tier(kPlaceKeys[key], value.as_text(kPlaceKeys[key])));
  }

  void on_row_end(std::size_t rows, std::uint32_t seen) override {
    if (rows == kPlaces) {
      require(seen, 1U << kPlaceStorage | 1U << kPlaceTiers, kPlaceKeys);
      if (!plan_.places.empty() && plan_.places.back().storage >= place_.storage) {
        throw UserError("its storage is not above that of the place before");
      }
      plan_.places.push_back(place_);
      return;
    }
    if (rows == kOps) {
      plan_.signatures.push_back(signature_);
      return;
    }
    constexpr std::uint32_t kAlways = 1U << kAt | 1U << kDo;
    require(seen, kAlways, kActionKeys);
    require(seen, kAlways | fields_of(action_.kind), kActionKeys);
    forbid_others(seen, kAlways | fields_of(action_.kind), kActionKeys);
    if (!plan_.actions.empty() && plan_.actions.back().at > action_.at) {
      throw UserError("\"at\" is below that of the action before");
    }
    plan_.actions.push_back(action_);
  }

  Plan finish() {
    if (version_ == 0) {
      throw UserError(fmt::format("it has no \"{}\", so it is no plan", kMembers[kVersion]));
    }
    return std::move(plan_);
  }

 private:
  static void require(std::uint32_t seen, std::uint32_t wanted,
                      std::span<const std::string_view> keys) {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      if ((wanted & ~seen) >> key & 1) {
        throw UserError(fmt::format("\"{}\" is missing", keys[key]));
      }
    }
  }

  /// A field too many may be a mistake about the kind.
  static void forbid_others(std::uint32_t seen, std::uint32_t wanted,
                            std::span<const std::string_view> keys) {
    for (std::size_t key = 0; key < keys.size(); ++key) {
      if ((seen & ~wanted) >> key & 1) {
        throw UserError(fmt::format("\"{}\" means nothing here", keys[key]));
      }
    }
  }

  Plan plan_;
  PlanPlace place_;
  PlanAction action_;
  std::uint64_t signature_ = 0;
  std::uint64_t version_ = 0;
};

void append_action(std::string& text, const PlanAction& action) {
  const auto out = std::back_inserter(text);
  fmt::format_to(out, R"({{"at":{},"do":"{}")", to_value(action.at), to_string(action.kind));
  const std::uint32_t fields = fields_of(action.kind);
  if ((fields >> kStorage & 1) != 0) {
    fmt::format_to(out, R"(,"storage":{})", to_value(action.storage));
  }
  if ((fields >> kTier & 1) != 0) fmt::format_to(out, R"(,"tier":"{}")", to_string(action.tier));
  if ((fields >> kOp & 1) != 0) fmt::format_to(out, R"(,"op":{})", to_value(action.op));
  if ((fields >> kAlternative & 1) != 0) {
    fmt::format_to(out, R"(,"alternative":{})", action.alternative);
  }
  text += '}';
}

void append_place(std::string& text, const PlanPlace& place) {
  fmt::format_to(std::back_inserter(text), R"({{"storage":{},"tiers":[)", to_value(place.storage));
  for (const char* comma = ""; const Tier tier : kTiers) {
    if (!place.on(tier)) continue;
    fmt::format_to(std::back_inserter(text), R"({}"{}")", std::exchange(comma, ","),
                   to_string(tier));
  }
  text += "]}";
}

void append_op(std::string& text, std::uint64_t signature) {
  if (signature == 0) {
    text += "\n{}";
    return;
  }
  fmt::format_to(std::back_inserter(text), "\n{{\"{}\":\"{:016x}\"}}", kOpKeys[kSignature],
                 signature);
}

}  // namespace

std::string format_plan(const Plan& plan) {
  std::string text = fmt::format("{{\n\"{}\":{},\n", kMembers[kVersion], kPlanVersion);
  for (const auto& [key, words] : {std::pair(kPlanner, plan.planner), std::pair(kTrace, plan.trace),
                                   std::pair(kMachine, plan.machine)}) {
    fmt::format_to(std::back_inserter(text), "\"{}\":{},\n", kMembers[key], json_text(words));
  }
  if (plan.durations) {
    fmt::format_to(std::back_inserter(text), "\"{}\":\"{}\",\n", kMembers[kDurations],
                   to_string(*plan.durations));
  }
  if (!plan.recorded_on.empty()) {
    fmt::format_to(std::back_inserter(text), "\"{}\":{},\n", kMembers[kRecordedOn],
                   json_text(plan.recorded_on));
  }
  fmt::format_to(std::back_inserter(text), "\"{}\":\"{:016x}\",\n", kMembers[kStructure],
                 plan.structure);
  for (const Tier tier : kTiers) {
    fmt::format_to(std::back_inserter(text), "\"{}\":{},\n",
                   kMembers[kDeviceBudget + index_of(tier)], plan.budgets[tier].count);
  }
  if (plan.workspace_margin != Bytes{0}) {
    fmt::format_to(std::back_inserter(text), "\"{}\":{},\n", kMembers[kMargin],
                   plan.workspace_margin.count);
  }
  if (plan.page_fault_ns != 0) {
    fmt::format_to(std::back_inserter(text), "\"{}\":{},\n", kMembers[kPageFault],
                   plan.page_fault_ns);
  }
  text += "\"places\":[";
  for (const char* comma = ""; const PlanPlace& place : plan.places) {
    text += std::exchange(comma, ",");
    text += '\n';
    append_place(text, place);
  }
  text += "\n],\n\"actions\":[";
  for (const char* comma = ""; const PlanAction& action : plan.actions) {
    text += std::exchange(comma, ",");
    text += '\n';
    append_action(text, action);
  }
  if (!plan.signatures.empty()) {
    text += "\n],\n\"ops\":[";
    for (const char* comma = ""; const std::uint64_t signature : plan.signatures) {
      text += std::exchange(comma, ",");
      append_op(text, signature);
    }
  }
  return text + "\n]\n}\n";
}

Plan parse_plan(std::string contents, std::string_view what) {
  try {
    PlanTarget target;
    parse_json_rows(decompressed(std::move(contents), kMostPlanText), kMembers, kRows, target);
    return target.finish();
  } catch (const OtherKindOfFile& other) {
    throw UserError(fmt::format("{} is a {}, not a plan.", what, other.what()));
  } catch (const UserError& error) {
    throw UserError(
        fmt::format("plan {}: {}. Make it again with spillway plan.", what, error.what()));
  }
}

void write_plan(const Plan& plan, const std::string& path) {
  const std::string text = format_plan(plan);
  write_file(path, "plan", ends_in_zst(path) ? compressed(text) : text);
}

Plan read_plan(const std::string& path) {
  return parse_plan(read_file(path, "plan", kMostPlanText), path);
}

}  // namespace spillway
