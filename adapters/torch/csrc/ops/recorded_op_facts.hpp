// SPDX-License-Identifier: Apache-2.0
// Facts of an operator for recording, worked out once from its registrations and schema.
#pragma once

#include <cstdint>

#include "ops/op_facts.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// How an operator's floating-point operations are counted (op_cost.hpp).
enum class FlopRule : std::uint8_t {
  kNone,
  kMatmul,       ///< last two arguments of the tensors [.., m, k] and [.., k, n] at 0 and 1
  kAddedMatmul,  ///< the same with the addend first
  kConvolution,
  kConvolutionBackward,
  kAttention,
  kAttentionBackward,
};

struct RecordedOpFacts {
  const OpFacts* op;
  bool leaf;           ///< has a kernel of its own: a row of the trace. Others only call such ops
  bool fused;          ///< not a leaf, but devices run it as one kernel, which has none on meta
  bool seeded;         ///< draws random numbers
  bool overwrites;     ///< uses nothing that its written arguments held
  bool gathers;        ///< reads no more of its first argument than it puts out
  bool uninitialized;  ///< its output holds no values yet
  std::uint64_t outputs;  ///< bit i: argument i is an `out=` that the op fills
  int dropout;            ///< position of the dropout probability; -1 where there is none
  FlopRule flop;
  bool adds_bias;  ///< not a leaf: a matrix product to which it then adds in place

  /// The op writes argument `i` without reading what it held before.
  [[nodiscard]] bool overwrites_argument(std::size_t i) const {
    return overwrites || (i < 64 && ((outputs >> i) & 1U) != 0);
  }
  /// A call with these inputs draws random numbers.
  [[nodiscard]] bool draws(c10::ArrayRef<const c10::IValue> inputs) const;
};

/// Null for what is no operator: autograd nodes and user scopes. Never freed; thread-safe.
const RecordedOpFacts* recorded_facts_of(const at::RecordFunction& function);

}  // namespace spillway::torch
