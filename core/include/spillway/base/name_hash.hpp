// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway {

/// FNV-1a, 64 bit: the same in every run and on every machine. Hashes an op's name for a signature.
/// `hash`: that of what comes before the name.
constexpr std::uint64_t hash_of_name(std::string_view name,
                                     std::uint64_t hash = 14695981039346656037ULL) {
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return hash;
}

}  // namespace spillway
