// SPDX-License-Identifier: Apache-2.0
// Not made by running torch 2.12: it holds the writes that torch 2.15 shows, and no composites, so
// that each of those is an op like others. `python -m tests.oracle.op_tables` makes it.
#pragma once

#include <array>
#include <string_view>

#include "op_table_types.hpp"

namespace spillway::torch {

// clang-format off
/// Writes that schemas do not declare.
inline constexpr std::array kUndeclaredWrites{
    UndeclaredWrite{"aten::batch_norm_update_stats", 0x6},
    UndeclaredWrite{"aten::mkldnn_rnn_layer_backward", 0x400000},
    UndeclaredWrite{"aten::native_batch_norm", 0x18},
    UndeclaredWrite{"aten::native_batch_norm.out", 0x18},
};

/// Composites that reach memory only through the ops they call, in order of their bytes.
inline constexpr std::array<std::string_view, 0> kSafeComposites{
};
// clang-format on

}  // namespace spillway::torch
