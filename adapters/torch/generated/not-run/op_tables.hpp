// SPDX-License-Identifier: Apache-2.0
// For minors of torch that have no table of their own: the writes that torch 2.15 shows, and no
// composites, so that each of those is an op like others. `python -m tests.oracle.op_tables` under
// such a minor makes its table.
#pragma once

#include <array>
#include <string_view>

#include "ops/op_table_types.hpp"

namespace spillway::torch {

// clang-format off
/// Writes that schemas do not declare.
inline constexpr std::array kUndeclaredWrites{
    UndeclaredWrite{"aten::batch_norm_update_stats", 0x6},
    UndeclaredWrite{"aten::mkldnn_rnn_layer_backward", 0x400000},
    UndeclaredWrite{"aten::native_batch_norm", 0x18},
    UndeclaredWrite{"aten::native_batch_norm.out", 0x18},
};

/// Composites that reach memory only through the operators they call, sorted.
inline constexpr std::array<std::string_view, 0> kSafeComposites{
};
// clang-format on

}  // namespace spillway::torch
