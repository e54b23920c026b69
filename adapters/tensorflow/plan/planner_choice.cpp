// SPDX-License-Identifier: Apache-2.0
#include "planner_choice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tf {
namespace {

constexpr std::array<std::string_view, 5> kExecuted{"hybrid", "swap-critical-path", "lms",
                                                    "partitioned", "superneurons"};
// Options of planners that a plan of a graph cannot follow, and what to say instead.
constexpr std::array<std::array<std::string_view, 2>, 4> kNotExecuted{{
    {"workspace", "TensorFlow chooses the algorithm of each op"},
    {"disk",
     "the store has host memory and then the disk, which SPILLWAY_HOST_BUDGET and "
     "SPILLWAY_DISK_BUDGET limit"},
    {"persistent",
     "no tensor of a plan outlives its step; variables leave memory by rules of "
     "their own (docs/tensorflow.md)"},
    {"serialization-by-size",
     "serialise-levels=on has the heavy ops of each level run one after "
     "the other"},
}};
// Of lms's sync-mode, which is their sum.
constexpr std::int64_t kSwapOutsBlock = 1;
constexpr std::int64_t kSwapInsBlock = 2;
constexpr std::string_view kNone = "none";
constexpr std::string_view kDefault = "hybrid";
// The paper's, for a mixture of experts.
constexpr std::size_t kPartitionNodes = 200;

const planning::Planner& find(std::string_view name) {
  if (std::ranges::find(kExecuted, name) != kExecuted.end()) return planning::planner_named(name);
  std::vector<std::string_view> names(kExecuted.begin(), kExecuted.end());
  names.push_back(kNone);
  throw UserError(fmt::format(
      "SPILLWAY_PLANNER: \"{}\" is no planner whose plans TensorFlow's graphs carry out.{} "
      "Planners: {}.",
      name, suggestion(name, names), fmt::join(names, ", ")));
}

bool is_on(std::string_view name, std::string_view value) {
  if (value == "on") return true;
  if (value == "off") return false;
  throw UserError(fmt::format("SPILLWAY_PLANNER: {} is on or off, not \"{}\".", name, value));
}

// Of hybrid a switch, of superneurons a strategy.
bool recomputes(const PlannerChoice& choice) {
  if (choice.planner->name() == "hybrid") return choice.options.get<bool>("recompute");
  return choice.planner->name() == "superneurons" &&
         choice.options.get<std::string>("recompute") != "none";
}

void set(PlannerChoice& choice, std::string_view name, std::string_view value) {
  if (name == "serialise-levels") {
    choice.serialise_levels = is_on(name, value);
    return;
  }
  for (const auto& [option, instead] : kNotExecuted) {
    if (name != option) continue;
    throw UserError(
        fmt::format("SPILLWAY_PLANNER: {} is not for TensorFlow's graphs: {}.", name, instead));
  }
  choice.options.set(name, value);
  if (choice.planner->name() == "lms") {
    const auto whole = [&] {
      return static_cast<std::uint32_t>(choice.options.get<std::int64_t>(name));
    };
    if (name == "threshold") choice.pairs.distance = whole();
    if (name == "groupby") choice.pairs.group = whole();
    if (name == "ahead") choice.pairs.ahead = std::max<std::uint32_t>(whole(), 1);
  } else if (name == "partition-size" && choice.options.get<std::int64_t>(name) > 0) {
    choice.partition_nodes = static_cast<std::size_t>(choice.options.get<std::int64_t>(name));
  }
}

}  // namespace

std::span<const std::string_view> executed_planners() { return kExecuted; }

PlannerChoice parse_planner(std::string_view text) {
  const std::size_t colon = text.find(':');
  const planning::Planner& planner = find(text.substr(0, colon));
  PlannerChoice choice{.planner = &planner,
                       .options = planning::Options(planner.options()),
                       .pairs = {},
                       // Neighbours of a level that run at once need the memory of both, and the
                       // step that was measured runs in another order than the planned one.
                       .serialise_levels = planner.name() == "hybrid",
                       .partition_nodes = planner.name() == "partitioned" ? kPartitionNodes : 0,
                       .twins = false};
  std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      throw UserError(fmt::format("SPILLWAY_PLANNER: \"{}\" is no OPTION=VALUE.", part));
    }
    set(choice, part.substr(0, equals), part.substr(equals + 1));
  }
  choice.twins = recomputes(choice);
  if (planner.name() == "lms") {
    const auto mode = choice.options.get<std::int64_t>("sync-mode");
    choice.swap_outs_block = (mode & kSwapOutsBlock) != 0;
    choice.swap_ins_block = (mode & kSwapInsBlock) != 0;
    if (mode != 0 && choice.options.get<bool>("tune")) {
      throw UserError(
          "SPILLWAY_PLANNER: lms with a sync-mode needs tune=off: tuning plans for modes of its "
          "own.");
    }
  }
  choice.variables_on_host =
      planner.name() == "partitioned" && choice.options.get<bool>("variables-on-host");
  return choice;
}

std::optional<PlannerChoice> choose_planner(std::string_view setting) {
  if (setting == kNone) return std::nullopt;
  return parse_planner(setting.empty() ? kDefault : setting);
}

}  // namespace spillway::tf
