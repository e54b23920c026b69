// SPDX-License-Identifier: Apache-2.0
// Twins of a card's tensors: the same sizes, strides and offset over other memory. They own
// nothing.
//
//     kCPU    over the memory that work of the stand-in card reads and writes for the tensor; what
//     a
//             kernel is given at its launch are addresses, not tensors, and so are these
//     kMeta   over none: for asking what an op would return
//
// A tensor that occurs twice in a call has one twin in it.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <unordered_map>
#include <vector>

#include "runtime/stand_in.h"

namespace spillway::standin {

/// Around whatever is not an op of the program: nothing records it, no gradient is kept.
struct Unseen {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::DisableRecordFunctionGuard unrecorded;
  at::NoGradGuard without_gradient;
};

class Twins {
 public:
  explicit Twins(c10::DeviceType of) : of_(of) {}

  at::Tensor tensor(const at::Tensor& original);
  /// Tensors in it, at any depth that ops have, and devices.
  c10::IValue value(const c10::IValue& original);
  torch::jit::Stack values(const torch::jit::Stack& originals);
  /// The card's memory that the tensors reach.
  [[nodiscard]] const std::vector<StandInAccess>& reached() const { return reached_; }

 private:
  at::Tensor make(const at::Tensor& original);
  void reach(const at::Tensor& original);

  c10::DeviceType of_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> known_;
  std::vector<StandInAccess> reached_;
};

/// A new tensor on the card as a meta one says.
at::Tensor made_on_card(const at::Tensor& meta);

}  // namespace spillway::standin
