// SPDX-License-Identifier: Apache-2.0
#include "ops/op_key.hpp"

#include <bit>

#include "ops/op_tensors.hpp"

namespace spillway::torch {

namespace {

struct Key {
  std::uint64_t hash;
  bool known = true;

  void number(std::int64_t value) { hash = mixed(hash, value); }

  void tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) return number(-1);
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!has_plain_sizes(tensor)) {
      known = false;
      return;
    }
    number(static_cast<std::int64_t>(impl.itemsize()));
    number(impl.dim());
    for (const std::int64_t size : impl.sizes()) number(size);
    for (const std::int64_t stride : impl.strides()) number(stride);
  }

  void value(const c10::IValue& value) {
    if (value.isTensor()) {
      tensor(value.toTensor());
    } else if (value.isInt()) {
      number(value.toInt());
    } else if (value.isBool()) {
      number(value.toBool() ? 1 : 0);
    } else if (value.isDouble()) {
      number(std::bit_cast<std::int64_t>(value.toDouble()));
    } else if (value.isList()) {
      const auto elements = value.toListRef();
      number(static_cast<std::int64_t>(elements.size()));
      for (const c10::IValue& each : elements) this->value(each);
    } else if (value.isSymInt() || value.isStorage() || value.isTuple() || value.isObject()) {
      known = false;
    }  // others (devices, layouts, generators, modes by name) say nothing of sizes
  }
};

}  // namespace

std::uint64_t op_key(const OpFacts& facts, c10::ArrayRef<const c10::IValue> inputs) {
  if (facts.needs_vary) return 0;
  Key key{.hash = facts.name_hash};
  for (const c10::IValue& input : inputs) {
    key.value(input);
    if (!key.known) return 0;
  }
  return key.hash;
}

}  // namespace spillway::torch
