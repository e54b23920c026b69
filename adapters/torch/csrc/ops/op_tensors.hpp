// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "ops/op_values.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// Whether sizes and strides are there to be read: not those of sparse and nested layouts, of
/// symbols, and of wrappers in Python, which would call into the interpreter.
inline bool has_plain_sizes(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::DispatchKeySet keys = impl.key_set();
  return impl.layout() == c10::kStrided && !impl.has_symbolic_sizes_strides() &&
         !keys.has(c10::DispatchKey::NestedTensor) && !keys.has(c10::DispatchKey::Python);
}

/// Calls `function` with each defined tensor in an argument or result of an op.
template <class Function>
void each_tensor(const c10::IValue& value, Function&& function) {
  // NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
  struct Tensors final : ValueVisitor {
    explicit Tensors(Function& called) : function(called) {}
    void tensor(const at::Tensor& tensor) override {
      if (tensor.defined()) function(tensor);
    }
    void storage(c10::StorageImpl&) override {}
    void closed(const std::string&) override {}
    Function& function;
  };
  Tensors tensors(function);
  visit_value(value, tensors);
}

}  // namespace spillway::torch
