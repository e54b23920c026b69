// SPDX-License-Identifier: Apache-2.0
// Frames and branches: see graph_order.hpp, which is what others include.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"

namespace spillway::tf {

inline bool is_merge(std::string_view op) {
  return op == "Merge" || op == "RefMerge" || op == "_XlaMerge";
}
inline bool is_switch(std::string_view op) {
  return op == "Switch" || op == "RefSwitch" || op == "_SwitchN";
}
inline bool is_enter(std::string_view op) { return op == "Enter" || op == "RefEnter"; }
inline bool is_exit(std::string_view op) { return op == "Exit" || op == "RefExit"; }
inline bool is_next_iteration(std::string_view op) {
  return op == "NextIteration" || op == "RefNextIteration";
}

struct ControlContexts {
  std::vector<std::uint32_t> context;
  std::vector<std::uint32_t> frame;
};

/// `sequence`: each node after those before it. Throws Doubt where frames mix.
ControlContexts find_contexts(const Graph& graph, const std::vector<std::vector<Edge>>& inputs,
                              const std::vector<NodeIndex>& sequence);

}  // namespace spillway::tf
