// SPDX-License-Identifier: Apache-2.0
// Asynchronous kernels as synchronous ones, where the settings say that swaps hold their threads.
//
// `Owner` is the session whose kernels they are: get(), swaps_block(), note_blocked().
#pragma once

#include <chrono>

#include "tensorflow/core/framework/op_kernel.h"

namespace spillway::tf {

/// Holds its thread: the executor calls what is not asynchronous by Compute(), which waits.
template <typename Kernel, typename Owner>
class Blocking : public Kernel {
 public:
  using Kernel::Kernel;
  ::tensorflow::AsyncOpKernel* AsAsync() override { return nullptr; }

  void Compute(::tensorflow::OpKernelContext* context) override {
    const auto begin = std::chrono::steady_clock::now();
    Kernel::Compute(context);
    Owner::get()->note_blocked((std::chrono::steady_clock::now() - begin) /
                               std::chrono::nanoseconds(1));
  }
};

template <typename Kernel, typename Owner>
::tensorflow::OpKernel* make_kernel(::tensorflow::OpKernelConstruction* construction) {
  const Owner* const owner = Owner::get();
  if (owner != nullptr && owner->swaps_block()) return new Blocking<Kernel, Owner>(construction);
  return new Kernel(construction);
}

}  // namespace spillway::tf
