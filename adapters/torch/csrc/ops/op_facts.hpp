// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "ops/repeatable_ops.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// Facts of an operator for the hook, worked out once from its schema. Never freed.
struct OpFacts {
  const char* name;         ///< e.g. "aten::add.Tensor"
  std::uint64_t name_hash;  ///< hash_of_name of its name with its overload
  std::uint64_t written;    ///< bit i: argument i may be written
  std::size_t arguments;    ///< how many the schema has; SIZE_MAX where that varies
  std::size_t results;      ///< likewise
  bool needs_vary;          ///< how much it allocates depends on values, or is its own affair
  bool collective;          ///< its buffers are in use after it returned
  bool packs;  ///< gives an object of C++, which may go on using tensors that no argument shows
  Repeatable repeatable;         ///< run again it gives the same bits
  RunningStatistics statistics;  ///< that it updates in training
  bool has_kernel;               ///< of its own: it does more than to call others
  bool shows_arguments;          ///< a result may be a view of an argument, or one itself
  bool reads_number;       ///< gives Python a number: `torch.tensor` of tensors fills its result so
  std::atomic<bool> keep;  ///< named in SPILLWAY_KEEP_OPS: its tensors never move again
  /// Reaches memory only through the ops it calls: neither restores nor pins. See op_tables.hpp.
  std::atomic<bool> transparent;
  mutable std::atomic<bool> needs_much{false};  ///< allocated much at once: see hook.cpp
  mutable std::atomic<bool> called_others;      ///< fuzz: ran another op while it was transparent

  [[nodiscard]] bool writes(std::size_t argument) const {
    return argument < 64 ? ((written >> argument) & 1U) != 0 : written != 0;
  }
};

/// The facts of the operator that `function` records; null for autograd nodes and user scopes.
///
/// The address of the name that torch hands out identifies the operator: it points into the
/// registered schema. (Asking for the schema itself copies it.)
const OpFacts* facts_of(const at::RecordFunction& function);

/// The op's arguments, by the schema's order, and its results.
///
/// A boxed call is recorded with all that its caller has on the stack, and the op's own come last:
/// functorch's transforms leave there what they had unwrapped.
c10::ArrayRef<const c10::IValue> arguments_of(const OpFacts& facts,
                                              const at::RecordFunction& function);
c10::ArrayRef<const c10::IValue> results_of(const OpFacts& facts,
                                            const at::RecordFunction& function);

/// Around a fork, by the thread that forks: no other then holds the lock of this table.
void lock_op_facts();
void unlock_op_facts();

/// The tensors that are managed lie on a graphics card: an operator that has a kernel for cards
/// reaches memory by it, and is not transparent.
void set_for_card();

/// Comma-separated operator names (with or without overload) whose tensors shall never move.
void set_kept_ops(const std::string& names);

/// For the tests that make the table of safe composites: these operators (full names, separated by
/// commas) are transparent instead of those of the table; null: those of the table again.
void set_transparent_ops(const char* names);
/// The transparent operators that called another since the last call of this, likewise.
std::string take_transparent_ops_seen();

}  // namespace spillway::torch
