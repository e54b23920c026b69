// SPDX-License-Identifier: Apache-2.0
// Parts that random tests share: a failure made small, and numbers that a person states.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

namespace spillway::testing {

/// The failure with ever shorter runs of its `items` removed for as long as `recompute` of the rest
/// returns a failure.
template <typename Failure, typename Items, typename Recompute>
Failure shrunken(Failure failure, Items Failure::*items, const Recompute& recompute) {
  for (std::size_t run = std::max<std::size_t>((failure.*items).size() / 2, 1); run > 0;) {
    bool removed = false;
    for (std::size_t at = 0; at + run <= (failure.*items).size();) {
      Items shorter = failure.*items;
      const auto first = shorter.begin() + static_cast<std::ptrdiff_t>(at);
      shorter.erase(first, first + static_cast<std::ptrdiff_t>(run));
      if (auto still = recompute(shorter)) {
        failure = std::move(*still);
        removed = true;
      } else {
        at += run;
      }
    }
    if (run > 1) {
      run /= 2;
    } else if (!removed) {
      break;
    }
  }
  return failure;
}

/// The number that the environment states, such as the seed of the one case to repeat; nothing
/// where it states none.
inline std::optional<std::uint32_t> stated_number(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace spillway::testing
