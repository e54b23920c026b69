// SPDX-License-Identifier: Apache-2.0
// The state of the exact search at one moment, and its moves from there.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "spillway/machine/machine.hpp"

namespace spillway::planning::exact {

using Mask = std::uint16_t;
inline constexpr std::uint8_t kNone = 0xff;

constexpr Mask bit(std::size_t storage) { return static_cast<Mask>(1U << storage); }
constexpr bool in(Mask mask, std::size_t storage) {
  return (std::uint32_t{mask} >> storage & 1U) != 0;
}

/// Between device and host a copy through the host, without room there, is under way to or from
/// the disk.
enum Kind : std::uint8_t { kPlain, kThrough };

struct Lane {
  TimeNs left = 0;
  std::uint8_t storage = kNone;
  std::uint8_t kind = kPlain;
  std::array<std::uint8_t, 6> padding{};
};

/// At one moment. Compared by its bytes, so that there is no padding but zeros.
struct State {
  TimeNs compute_left = 0;
  std::array<Lane, 4> lane{};
  Mask device = 0, host = 0, disk = 0;  // where whole copies are
  Mask ghost = 0;                       // on the device for runs of ops again alone
  Mask half_out = 0, half_in = 0;       // on the host, between the two halves of a way through it
  std::uint8_t op = 0;                  // that runs or comes next
  std::uint8_t running = kNone;         // op, perhaps again
  std::array<std::uint8_t, 2> padding{};

  bool operator==(const State& other) const {
    return std::memcmp(this, &other, sizeof(State)) == 0;
  }
};
static_assert(sizeof(State) == 8 + 4 * 16 + 6 * 2 + 4);

struct Hash {
  std::size_t operator()(const State& state) const {
    std::array<std::uint64_t, sizeof(State) / 8> words;
    std::memcpy(words.data(), &state, sizeof(State));
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

enum class Deed : std::uint8_t {
  kTime,
  kOp,
  kRecompute,
  kOut,
  kIn,
  kDemote,
  kLeave,
  kForget,
  kDrop
};

struct OpFacts {
  Mask reads = 0, writes = 0, creates = 0, frees = 0;
  TimeNs duration = 0;
  std::uint64_t workspace = 0;
  bool recomputable = false;
};

/// That carries the storage.
inline std::optional<LinkKind> link_of(const State& state, std::size_t storage) {
  for (const LinkKind link : kLinks) {
    if (state.lane[index_of(link)].storage == storage) return link;
  }
  return std::nullopt;
}

}  // namespace spillway::planning::exact
