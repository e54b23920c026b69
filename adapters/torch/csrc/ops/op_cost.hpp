// SPDX-License-Identifier: Apache-2.0
// Floating-point operations and bytes of one operator call, from the shapes it was called with.
//
// Operations are counted as torch.utils.flop_counter does: a multiplication and an addition are
// two, attention is counted whole although a causal kernel does half, and what is not a matrix
// product, a convolution or attention counts none, since its time is that of its bytes. Bytes are
// those of the elements that the call's tensors address, each tensor once: what a kernel moves at
// least.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/recorded_op_facts.hpp"
#include "spillway/trace/trace.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// Bytes of the elements that the tensor addresses; an expanded dimension counts once.
std::uint64_t addressed_bytes(const at::Tensor& tensor);

/// The ops in which the program lets 32-bit products be rounded to TensorFloat-32.
struct TensorFloat32Use {
  bool matmul = false;
  bool convolution = false;
};

/// Counts one call: `inputs` when it begins, each `output` when it ends, then the results.
class OpCost {
 public:
  OpCost() = default;
  OpCost(const RecordedOpFacts& facts, c10::ArrayRef<const c10::IValue> inputs,
         TensorFloat32Use rounding);

  void input(const at::Tensor& tensor, bool only_written);
  void output(const at::Tensor& tensor);

  /// Returns nothing for ops whose time is that of their bytes.
  [[nodiscard]] std::optional<std::uint64_t> flop() const;
  [[nodiscard]] std::uint64_t bytes() const;
  /// In what type the op calculates; unknown for what only moves or counts.
  [[nodiscard]] Arithmetic arithmetic() const { return arithmetic_; }

 private:
  const RecordedOpFacts* facts_ = nullptr;
  TensorFloat32Use rounding_;
  std::uint64_t flop_ = 0;
  std::uint64_t flop_per_output_position_ = 0;  // convolutions: known when they end
  std::uint64_t read_ = 0;
  std::uint64_t first_read_ = 0;
  std::uint64_t written_ = 0;
  bool any_input_ = false;
  bool any_output_ = false;
  Arithmetic arithmetic_ = Arithmetic::kUnknown;
};

}  // namespace spillway::torch
