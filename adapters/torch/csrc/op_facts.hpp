// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "torch_headers.hpp"

namespace spillway::torch {

/// What the hook needs to know of an operator, worked out once from its schema. Never freed.
struct OpFacts {
  const char* name;         ///< e.g. "aten::add.Tensor"
  std::uint64_t signature;  ///< hash of the name
  std::uint64_t written;    ///< bit i: argument i may be written
  bool transparent;         ///< only loops over dispatched ops: neither restores nor pins
  bool collective;          ///< its buffers are in use after it returned
  std::atomic<bool> keep;   ///< named in SPILLWAY_KEEP_OPS: its tensors never move again

  [[nodiscard]] bool writes(std::size_t argument) const {
    return argument < 64 ? ((written >> argument) & 1U) != 0 : written != 0;
  }
};

/// The facts of the operator that `function` records; null for autograd nodes and user scopes.
///
/// The address of the name that torch hands out identifies the operator: it points into the
/// registered schema. (Asking for the schema itself copies it.)
const OpFacts* facts_of(const at::RecordFunction& function);

/// Comma-separated operator names (with or without overload) whose tensors shall never move.
void set_kept_ops(const std::string& names);

}  // namespace spillway::torch
