// SPDX-License-Identifier: Apache-2.0
// Puts the pairs of swap_pairs.hpp into a graph. Knows no header of TensorFlow: a GraphDef comes
// and goes as bytes.
//
// The graph computes what it computed: between a tensor and its user there is only what hands the
// same bytes on. Any doubt (a cycle, frames that mix, an unknown input, bytes that are no graph)
// leaves the graph as it was, and `reason` says why; so does a graph that has pairs already. Where
// it is asked for, twins (twins.hpp) compute some tensors again in place of swapping them.
// Thread-safe: no shared state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op_names.hpp"
#include "op_types.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {

/// One wait of a tensor, which ends with a swap-in.
struct HoleName {
  std::vector<std::string> users{};   ///< nodes
  std::uint32_t due = 0;              ///< the clock's time at which the swap-in begins by itself
  std::uint32_t latest = 0;           ///< and the last at which it may
  std::optional<std::size_t> gate{};  ///< it has no users but the twin of this pair
};

/// The name, in the framework's graph, of the tensor that a pair moves.
struct PairName {
  std::string tensor{};  ///< node, and `:port` where that is not 0
  std::string node{};
  std::string op{};
  bool in_loop = false;                ///< may run several times in one step
  std::vector<std::string> early{};    ///< nodes that use the tensor itself
  std::uint64_t clock = 0;             ///< of its context; where clocks trigger swap-ins
  std::vector<HoleName> holes{};       ///< one before each swap-in
  std::vector<std::string> cone{};     ///< nodes that its twin copies; empty: it has none
  std::vector<std::size_t> sources{};  ///< pairs that its twin reads
};

struct Rewritten {
  std::string graph;
  std::vector<PairName> pairs;
  /// The heavy ops of each clock, by name: its time is how many of them, from the first on, are
  /// done. Empty where edges trigger swap-ins.
  std::vector<std::vector<std::string>> clocks;
  /// The nodes of each partition between barriers, in the context with most of them. Empty: there
  /// are no barriers.
  std::vector<std::vector<std::string>> partitions;
  /// Equal for graphs of equal nodes with equal ops and inputs, before pairs were put in.
  std::uint64_t signature = 0;
};

/// Reasons that leave nothing to be desired.
inline constexpr std::string_view kNothingWaits = "no tensor waits long for its user";
inline constexpr std::string_view kHasPairs = "it has pairs already";
/// Tensors wait there, but under a budget of the processor they get no pairs.
inline constexpr std::string_view kRunsOnCard =
    "it runs on a card, which a budget of the processor leaves alone; give one of the card's "
    "memory, such as SPILLWAY_BUDGET=cuda:12GiB";

struct RewriteResult {
  std::optional<Rewritten> rewritten;
  std::string reason;  ///< why not
  std::string sample;  ///< the graph's first heavy node, else its first, by which a person knows it
  std::size_t nodes = 0;
};

/// The thing that holds a swap-in back until it is due.
enum class Trigger : std::uint8_t {
  kEdge,   ///< a tick that it follows
  kClock,  ///< nothing in the graph: it asks, and ticks tell how far the step is; in functions
};

struct RewriteOptions {
  PairOptions pairs;
  /// A constant of so many bytes or more becomes one of ours, which need not lie in memory all the
  /// time. 0: none does.
  std::uint64_t smallest_constant = 0;
  /// The number of the first hole. Each pair has as many in a row as it has swap-ins: the attribute
  /// `hole` of a swap-in is that of the one before it, of a swap-out that of its first, with how
  /// many there are as `holes`, and the node that makes the tensor as `made_by`.
  std::uint64_t first_hole = 0;
  Trigger trigger = Trigger::kEdge;
  std::uint64_t first_clock = 0;    ///< the number of the first clock
  bool serialise_levels = false;    ///< see ordering_edges.hpp, here and below
  std::size_t partition_nodes = 0;  ///< 0: no barriers
  bool order_updates = false;       ///< and a node behind all of them
  bool twins = false;
};

RewriteResult rewrite_graph(std::string_view graph, const OpCatalogue& catalogue,
                            const RewriteOptions& options);

}  // namespace spillway::tf
