// SPDX-License-Identifier: Apache-2.0
// For torch 2.11. To be made by `python -m tests.oracle.op_tables`; until then it holds what is known
// of batch normalisation, and every composite is an op like others.
#pragma once

#include <array>
#include <string_view>

#include "op_table_types.hpp"

namespace spillway::torch {

// clang-format off
/// Writes that schemas do not declare.
inline constexpr std::array kUndeclaredWrites{
    UndeclaredWrite{"aten::batch_norm_update_stats", 0x6},
    UndeclaredWrite{"aten::native_batch_norm", 0x18},
};

/// Composites that reach memory only through the ops they call, in order of their bytes.
inline constexpr std::array<std::string_view, 0> kSafeComposites{
};
// clang-format on

}  // namespace spillway::torch
