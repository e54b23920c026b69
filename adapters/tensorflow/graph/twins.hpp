// SPDX-License-Identifier: Apache-2.0
// Twins: copies of cheap ops that compute a waiting tensor again just before its last users, in
// place of its copy. Each step asks a table whether they run, as for a swap.
//
//     x ─> swap-out ─> gate ─> swap-in ─> Mul' ─> AddV2' ─> Relu' ─┐
//     y ─> swap-out ─┬─> recomputes? ─^                            v
//                    └─> choose ─────────────────> swap-in ────> Merge ─> late users of y
//
// y = Relu(AddV2(Mul(x, a), b)), and Mul', AddV2', Relu' are the same ops of the same attributes.
// Where the answer is yes the gate lets x's token through and `choose` ends the one of y, which
// frees y; where it is no, what stands above the line is dead and costs nothing. So x has a hole
// more, before the swap-in behind the gate.
//
// The rule, for an output y of a pair whose op is cheap. Its cone is y's op and, from there back,
// every op whose output is neither a source nor held:
//
//     source   an output of a pair that has no twin itself
//     held     variables, constants and arguments, and what is small: reductions, shapes, and
//              what cheap ops other than broadcasts make of small values, variables and constants
//              (not large ones) alone. It is held until the twin has run
//
// y has a twin if all of its cone are cheap, at most `most_ops`, and of y's context, and if it has
// a source. Outputs are looked at in the graph's order. y's last swap-in is then the one for all
// users of those before it whose levels lie within `reach`: what is computed again is kept for all
// of a backward pass's uses, which are close to each other. No op gets a user that was not there,
// but for swap-outs and what is held, so fusions that look for a single user are what they were.
//
// Why the value is the same in every bit: cheap ops are pure functions of their inputs (no random
// number, no state, no side effect), and in(out(x)) = x. Why nothing merges the two: the twins'
// inputs come from swap-ins, which are stateful, so that neither subexpressions nor constants are
// found equal. Why no cycle arises: the cone lies before y, and the swap-ins behind gates wait for
// heavy ops of lower levels than y's last users. Why no frame is crossed: cone, sources and users
// are of one context; inputs that are held are those of the cone's own ops.
//
// Cost-aware recomputation is SuperNeurons' (Wang et al. 2018, docs/references.md). Pure; errors:
// none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph_def.hpp"
#include "graph_order.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {

/// A pure function that is cheap beside a product: activations, normalisation, casts, broadcasts,
/// and what works element by element. None that oneDNN's pass makes one op of with a neighbour.
bool is_cheap(std::string_view op);

struct TwinOptions {
  std::size_t most_ops = 8;
  std::uint32_t reach = 16;  ///< levels
  std::uint32_t ahead = 2;   ///< heavy ops, as for pairs
};

/// Gives pairs outside of loops their twins, and their sources the swap-ins behind gates.
void find_twins(const Graph& graph, const GraphOrder& order, const TwinOptions& options,
                SwapPairs& found);

/// Puts the cone into the graph once more, with names that begin with `stem`; in place of each
/// source it reads the output of that name in `sources`. `port`: of the cone's last op. Returns the
/// name of what is then y once more.
std::string put_cone(Graph& graph, const Twin& twin, std::uint32_t port, const std::string& stem,
                     const std::vector<std::string>& sources);

}  // namespace spillway::tf
