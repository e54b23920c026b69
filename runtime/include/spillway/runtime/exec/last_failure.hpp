// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace spillway::runtime {

/// Why a storage cannot be used.
enum class FailureKind : bool {
  kShortage,    ///< no room under the budget, or the kernel has none
  kUnreadable,  ///< its bytes cannot be read back
};

/// The last storage or op that the engine refused to the calling thread, in words for people. Each
/// thread has its own; it stays until the next refusal.
struct LastFailure {
  std::string text;
  FailureKind kind = FailureKind::kShortage;
};

[[nodiscard]] const LastFailure& last_failure();
void set_last_failure(std::string text, FailureKind kind = FailureKind::kShortage);

}  // namespace spillway::runtime
