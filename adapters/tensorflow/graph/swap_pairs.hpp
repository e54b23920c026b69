// SPDX-License-Identifier: Apache-2.0
// Which tensors of a graph get a pair: one swap-out behind the op that makes the tensor, and a
// swap-in before each group of its late users. Whether a pair copies is decided while the step
// runs; here is only what could.
//
//     make ──────────────────> early user             level(user) - level(make) <= distance
//      └─> swap-out ─┬─> swap-in ──> late user, late user    within `group` levels: they share one
//                    └─> swap-in ──> later user
//     heavy ─> tick ──^                               the swap-in begins `ahead` heavy ops early
//
// The rule is that of large model support (Le et al., docs/references.md): an edge whose operation
// distance exceeds a threshold is cut. A tick follows *all* heavy ops of its context up to a level,
// not one: an executor that puts off ops without successors then runs them before it begins to
// bring back what comes later. Nodes of one context alone are tied together.
//
// The pairs of a graph are all for one kind of device: the processor, or the first card
// (`Placement`). On a card the framework keeps numbers of type int32 in the machine's memory, so
// they get no pair.
//
// No pair moves a variable or a constant of ours. Its late users get an op before them too, placed
// as a swap-in is, that says that it is used now.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "early_changes.hpp"
#include "graph_def.hpp"
#include "graph_order.hpp"
#include "op_types.hpp"

namespace spillway::tf {

/// The device whose tensors get pairs.
enum class Placement : std::uint8_t {
  kProcessor,
  kCard,  ///< GPU:0
};

struct PairOptions {
  std::uint32_t distance = 8;  ///< levels
  std::uint32_t group = 3;     ///< levels
  std::uint32_t ahead = 2;     ///< heavy ops; at least 1
  Placement placement = Placement::kProcessor;
};

struct Use {
  NodeIndex node = 0;
  std::uint32_t input = 0;  ///< which of the node's inputs

  bool operator==(const Use&) const = default;
};

struct SwapIn {
  std::vector<Use> uses;              ///< by level; none behind a gate
  std::optional<std::uint32_t> tick;  ///< waits for the heavy ops of its context up to this one
  std::optional<std::uint32_t> last;  ///< the last of them that it could wait for
  std::optional<std::size_t> gate;    ///< the pair whose twin it brings an input to
};

/// How a tensor is computed again; see twins.hpp.
struct Twin {
  struct Source {
    NodeIndex node = 0;
    std::uint32_t port = 0;
    std::size_t pair = 0;
  };
  std::vector<NodeIndex> cone;  ///< each op after those before it
  std::vector<Source> sources;
};

struct SwapPair {
  NodeIndex node = 0;
  std::uint32_t port = 0;
  DataType type = 0;
  std::vector<NodeIndex> early;  ///< users of the tensor itself
  bool variable = false;  ///< or a constant: it has uses in place of swap-ins, and no swap-out
  std::vector<SwapIn> swap_ins;
  std::optional<Twin> twin{};  ///< for the users of the last swap-in
};

struct SwapPairs {
  std::vector<SwapPair> pairs;
  std::vector<std::vector<NodeIndex>> heavy;  ///< of each context, by level
};

/// Whether the op's time is worth waiting for.
bool is_heavy(std::string_view op);
/// The heavy nodes of each context, by level.
std::vector<std::vector<NodeIndex>> heavy_nodes(const Graph& graph, const GraphOrder& order);
/// Whether a node runs on a processor, as far as its device says.
bool is_on_processor(const Node& node);
/// Whether it runs on the first card: `GPU:0`, alone or at the end of a longer name.
bool is_on_card(const Node& node);

/// The heavy op, as a place in its context's row, that a swap-in for `user` waits for: `ahead`
/// before the user. None if its level is not above that of `maker`, which makes what is swapped.
std::optional<std::uint32_t> tick_before(const GraphOrder& order,
                                         const std::vector<std::vector<NodeIndex>>& heavy,
                                         NodeIndex maker, NodeIndex user, std::uint32_t ahead);

/// Ops that put out the memory of their first input.
bool is_alias(std::string_view op);

/// A node of the early changes has no pair before it.
SwapPairs find_pairs(const Graph& graph, const GraphOrder& order, const OpCatalogue& catalogue,
                     const PairOptions& options, const EarlyChanges& early = {});

}  // namespace spillway::tf
