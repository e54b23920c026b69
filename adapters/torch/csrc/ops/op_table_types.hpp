// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway::torch {

/// An operator that writes arguments which its schema does not mark.
struct UndeclaredWrite {
  std::string_view op;      ///< full name, e.g. "aten::native_batch_norm"
  std::uint64_t arguments;  ///< bit i: argument i
};

}  // namespace spillway::torch
