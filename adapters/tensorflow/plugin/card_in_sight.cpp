// SPDX-License-Identifier: Apache-2.0
#include "card_in_sight.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace spillway::tf {

bool card_in_sight(const char* visible, const std::filesystem::path& root) {
  // CUDA ends the list at the first number that is no device's.
  if (visible != nullptr && (*visible == '\0' || *visible == '-')) return false;
  constexpr std::array kOfDrivers{"dev/nvidiactl", "dev/dxg", "dev/kfd"};  // dxg: WSL, kfd: ROCm
  return std::ranges::any_of(kOfDrivers, [&](const char* file) {
    std::error_code ignored;
    return std::filesystem::exists(root / file, ignored);
  });
}

}  // namespace spillway::tf
