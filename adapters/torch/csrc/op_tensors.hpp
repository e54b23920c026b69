// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Calls `function` with each defined tensor in an argument or result of an op, lists and tuples
/// included.
template <class Function>
void each_tensor(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) function(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList() || value.isList()) {
    if (value.isIntList() || value.isDoubleList() || value.isBoolList()) return;
    for (const c10::IValue& element : value.toListRef()) each_tensor(element, function);
  } else if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      each_tensor(element, function);
    }
  }
}

}  // namespace spillway::torch
