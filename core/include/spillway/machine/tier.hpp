// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

/// Where bytes can lie, fastest first. The order is used: a lower tier is a slower one.
enum class Tier : std::uint8_t { kDevice = 0, kHost = 1, kDisk = 2 };

inline constexpr std::size_t kTierCount = 3;
inline constexpr std::array<Tier, kTierCount> kTiers{Tier::kDevice, Tier::kHost, Tier::kDisk};

constexpr std::size_t index_of(Tier tier) { return static_cast<std::size_t>(tier); }

constexpr std::string_view to_string(Tier tier) {
  constexpr std::array<std::string_view, kTierCount> kNames{"device", "host", "disk"};
  return kNames[index_of(tier)];
}

static_assert(index_of(Tier::kDisk) + 1 == kTierCount);

}  // namespace spillway
