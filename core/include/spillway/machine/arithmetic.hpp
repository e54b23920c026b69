// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace spillway {

/// In what an op's kernels calculate, where one type dominates.
enum class Arithmetic : std::uint8_t {
  kUnknown,
  kFloat64,
  kFloat32,
  kTensorFloat32,
  kFloat16,
  kBfloat16,
  kInt8,
};

inline constexpr std::size_t kArithmeticCount = 7;

/// `float32`, `bfloat16`, ...
std::string_view to_string(Arithmetic type);
/// Returns nothing for a word that is no type.
std::optional<Arithmetic> parse_arithmetic(std::string_view text);

}  // namespace spillway
