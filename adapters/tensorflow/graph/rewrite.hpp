// SPDX-License-Identifier: Apache-2.0
// Puts the pairs of swap_pairs.hpp into a graph. Knows no header of TensorFlow: a GraphDef comes
// and goes as bytes.
//
// The graph computes what it computed: between a tensor and its user there is only what hands the
// same bytes on. Any doubt (a cycle, frames that mix, an unknown input, bytes that are no graph)
// leaves the graph as it was, and `reason` says why; so does a graph that has pairs already.
// Thread-safe: no shared state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "op_types.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {

constexpr std::string_view kSwapOutOp = "SpillwaySwapOut";
constexpr std::string_view kSwapInOp = "SpillwaySwapIn";

/// The name, in the framework's graph, of the tensor that a pair moves.
struct PairName {
  std::string tensor;  ///< node, and `:port` where that is not 0
  std::string op;
  bool in_loop = false;     ///< may run several times in one step
  std::uint32_t holes = 0;  ///< waits: one before each swap-in
};

struct Rewritten {
  std::string graph;
  std::vector<PairName> pairs;
};

struct RewriteResult {
  std::optional<Rewritten> rewritten;
  std::string reason;  ///< why not
  std::size_t nodes = 0;
};

struct RewriteOptions {
  PairOptions pairs;
  /// The number of the first hole. Each pair has as many in a row as it has swap-ins: the attribute
  /// `hole` of a swap-in is that of the one before it, of a swap-out that of its first, with how
  /// many there are as `holes`.
  std::uint64_t first_hole = 0;
};

RewriteResult rewrite_graph(std::string_view graph, const OpCatalogue& catalogue,
                            const RewriteOptions& options);

}  // namespace spillway::tf
