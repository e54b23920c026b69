// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/kernel_workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::planning {
namespace {

using Key = std::pair<std::string_view, Bytes>;

Key key_of(const KernelWorkspace& each) { return {each.op, each.touched}; }

// Storages that the op makes and frees itself: workspace that a recorder of a run sees.
Bytes made_and_freed(const Trace& trace, std::size_t op) {
  Bytes bytes{};
  const auto frees = trace.ops.frees[OpIndex{op}];
  for (const StorageId made : trace.ops.creates[OpIndex{op}]) {
    if (std::ranges::find(frees, made) != frees.end()) {
      bytes += trace.storages.bytes[to_value(made)];
    }
  }
  return bytes;
}

}  // namespace

void learn_workspace(Machine& machine, const Trace& trace, std::string_view source) {
  if (!trace.workspace_known) {
    throw UserError(
        "The step was recorded without its kernels, so it knows no workspace. Record a run.");
  }
  std::map<std::pair<std::string, Bytes>, Bytes> table;
  for (const KernelWorkspace& each : machine.workspace.value) {
    table[{each.op, each.touched}] = each.workspace;
  }
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const auto touched = trace.ops.bytes_touched[op];
    if (!touched) continue;
    Bytes& most = table[{std::string(trace.ops.name[op]), *touched}];
    most = std::max(most, trace.ops.workspace[op] + made_and_freed(trace, op));
  }
  machine.workspace.value.clear();
  for (const auto& [key, workspace] : table) {
    machine.workspace.value.push_back({key.first, key.second, workspace});
  }
  std::string& sources = machine.workspace.source;
  if (sources.find(source) != std::string::npos) return;
  sources += fmt::format("{}{}", sources.empty() ? "" : "; ", source);
}

std::vector<std::uint8_t> lend_workspace(Trace& trace, const Machine& machine) {
  std::vector<std::uint8_t> known(trace.ops.size(), 1);
  if (trace.workspace_known) return known;
  const std::vector<KernelWorkspace>& table = machine.workspace.value;
  for (std::size_t op = 0; op < trace.ops.size(); ++op) {
    const Key key{trace.ops.name[op], trace.ops.bytes_touched[op].value_or(Bytes{})};
    const auto found = std::ranges::lower_bound(table, key, {}, key_of);
    known[op] = found != table.end() && key_of(*found) == key ? 1 : 0;
    if (known[op] == 0) continue;
    trace.ops.workspace[op] = saturating_sub(found->workspace, made_and_freed(trace, op));
  }
  return known;
}

}  // namespace spillway::planning
