// SPDX-License-Identifier: Apache-2.0
// Asynchronous kernels as synchronous ones, where the settings say that swaps hold their threads.
//
// `Owner` is the session whose kernels they are: get(), begins_to_block(), has_blocked(). `Kernel`
// says whether it is to be one: blocks(owner).
#pragma once

#include "spillway/base/ids.hpp"
#include "tensorflow/core/framework/op_kernel.h"

namespace spillway::tf {

/// Holds its thread: the executor calls what is not asynchronous by Compute(), which waits.
template <typename Kernel, typename Owner>
class Blocking : public Kernel {
 public:
  using Kernel::Kernel;
  ::tensorflow::AsyncOpKernel* AsAsync() override { return nullptr; }

  void Compute(::tensorflow::OpKernelContext* context) override {
    const TimeNs begun = Owner::get()->begins_to_block();
    Kernel::Compute(context);
    Owner::get()->has_blocked(begun);
  }
};

template <typename Kernel, typename Owner>
::tensorflow::OpKernel* make_kernel(::tensorflow::OpKernelConstruction* construction) {
  const Owner* const owner = Owner::get();
  if (owner != nullptr && Kernel::blocks(*owner)) return new Blocking<Kernel, Owner>(construction);
  return new Kernel(construction);
}

}  // namespace spillway::tf
