// SPDX-License-Identifier: Apache-2.0
// The rows of generated/op_tables.hpp, which all minors of torch share. A row that does not hold
// under all of them lists those under which it holds, as "2.11 2.12".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway::torch {

/// An operator that writes arguments which its schema does not mark.
struct UndeclaredWrite {
  std::string_view op;      ///< full name, e.g. "aten::native_batch_norm"
  std::uint64_t arguments;  ///< bit i: argument i
  std::string_view minors = {};
};

/// A composite inside which evicting is safe.
struct SafeComposite {
  std::string_view op;  ///< full name
  std::string_view minors = {};
};

/// Whether a list such as "2.11 2.12" has this minor.
constexpr bool names_minor(std::string_view minors, std::string_view minor) {
  for (std::size_t begin = 0; begin < minors.size();) {
    const std::size_t end = std::min(minors.find(' ', begin), minors.size());
    if (minors.substr(begin, end - begin) == minor) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace spillway::torch
