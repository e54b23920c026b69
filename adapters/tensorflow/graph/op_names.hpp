// SPDX-License-Identifier: Apache-2.0
// The names of the ops and nodes that are put into graphs, and a search in lists of names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace spillway::tf {

/// Begins the name of each node that is put in.
constexpr std::string_view kPrefix = "spillway/";

constexpr std::string_view kSwapOutOp = "SpillwaySwapOut";
constexpr std::string_view kSwapInOp = "SpillwaySwapIn";
constexpr std::string_view kTickOp = "SpillwayTick";
/// Whether a tensor's twin is to run: put out beside its swap-out.
constexpr std::string_view kRecomputesOp = "SpillwayRecomputes";
/// Behind a twin: hands on what it computed, and counts it.
constexpr std::string_view kTwinOp = "SpillwayTwin";
/// A large constant of the graph, in memory of ours.
constexpr std::string_view kConstantOp = "SpillwayConstant";
/// Before a late user of a variable or of such a constant: says that it is used.
constexpr std::string_view kUseOp = "SpillwayUse";
/// Says the same, given the variable itself.
constexpr std::string_view kTouchOp = "SpillwayTouch";
/// Behind all updates of a step: variables may leave until the next one begins.
constexpr std::string_view kRestOp = "SpillwayRest";

/// Ops that change a variable where it lies, all of it.
inline bool is_update_in_place(std::string_view op) {
  return op == "AssignAddVariableOp" || op == "AssignSubVariableOp" ||
         op.starts_with("ResourceApply");
}

template <std::size_t kSize>
bool is_one_of(std::string_view op, const std::array<std::string_view, kSize>& ops) {
  return std::ranges::find(ops, op) != ops.end();
}

template <std::size_t kSize>
bool contains_any(std::string_view op, const std::array<std::string_view, kSize>& parts) {
  return std::ranges::any_of(
      parts, [op](std::string_view part) { return op.find(part) != std::string_view::npos; });
}

}  // namespace spillway::tf
