// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "spillway/runtime/device/device_driver.hpp"

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
/// As one that makes a storage unreadable.
void set_last_failure(const DeviceFailure& failure);

}  // namespace spillway::runtime
