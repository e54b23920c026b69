// SPDX-License-Identifier: Apache-2.0
// The kernel that stands for nearly every CUDA kernel of an op that has one for the processor.
//
//     at the call     asks the op for its results over meta tensors, makes them on the card, and
//                     enqueues the rest
//     in the stream   runs the processor's kernel over twins of the arguments, and copies what it
//                     returns into the results
//
// Where meta tensors cannot tell, or the op returns numbers, the call waits for the stream, as
// CUDA's kernels do in that case: for them the results of the work say what to make.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <atomic>

#include "values/op_shape.hpp"

namespace spillway::standin {

class BoxedKernel final : public c10::OperatorKernel {
 public:
  explicit BoxedKernel(const c10::OperatorHandle& op) : shape_(op) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack);

 private:
  using Stack = torch::jit::Stack;

  [[nodiscard]] Stack arguments_of(const Stack& stack) const;
  /// The new results, over meta tensors; outs are resized. None: they could not be asked for.
  std::optional<Stack> foresee(const c10::OperatorHandle& op, const Stack& arguments);
  Stack launch(const c10::OperatorHandle& op, const Stack& arguments, const Stack& foreseen) const;
  Stack run_at_once(const c10::OperatorHandle& op, const Stack& arguments) const;
  /// Those that are no argument.
  [[nodiscard]] Stack new_ones(const Stack& results) const;

  OpShape shape_;
  std::atomic<bool> is_unforeseeable_{false};  // the op has no kernel for meta tensors
};

/// How many ops were enqueued, and how many were waited for, since the process began.
struct Counts {
  std::int64_t enqueued;
  std::int64_t awaited;
};
Counts counts();

}  // namespace spillway::standin
