// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/op_facts.hpp"

namespace spillway::torch {

/// `hash` with one more number in it.
inline std::uint64_t mixed(std::uint64_t hash, std::int64_t number) {
  return (hash ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ULL;
}

/// The number by which the step recogniser tells ops apart, which traces and plans keep: of the
/// operator's name, as hashed, and of how many elements each tensor among the arguments has. The
/// same in every run.
inline std::uint64_t op_signature(std::uint64_t name, c10::ArrayRef<const c10::IValue> inputs) {
  std::uint64_t signature = name;
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    const c10::TensorImpl* impl = input.toTensor().unsafeGetTensorImpl();
    signature = mixed(signature, impl->sym_numel().maybe_as_int().value_or(0));
  }
  return signature;
}

/// The same for calls that allocate the same: of the operator and all that its inputs tell of sizes
/// (shapes, strides, types, numbers, flags, lists of them). 0 where they don't tell: sizes that
/// depend on values, layouts without strides, operators that are not torch's own.
std::uint64_t op_key(const OpFacts& facts, c10::ArrayRef<const c10::IValue> inputs);

}  // namespace spillway::torch
