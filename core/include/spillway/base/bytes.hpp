// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

/// A number of bytes. A type of its own, so that a count of bytes is never mistaken for a count of
/// pages or elements. Never negative: subtraction below zero throws InternalError.
struct Bytes {
  std::uint64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) {
    count += other.count;
    return *this;
  }
  Bytes& operator-=(Bytes other);
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend Bytes operator-(Bytes a, Bytes b) { return a -= b; }
  friend constexpr Bytes operator*(Bytes a, std::uint64_t n) { return {a.count * n}; }
};

inline constexpr Bytes kKiB{std::uint64_t{1} << 10};
inline constexpr Bytes kMiB{std::uint64_t{1} << 20};
inline constexpr Bytes kGiB{std::uint64_t{1} << 30};

/// Smallest multiple of `granule` (a power of two) that holds `bytes`.
constexpr Bytes round_up(Bytes bytes, std::uint64_t granule) {
  return {(bytes.count + granule - 1) & ~(granule - 1)};
}

/// Difference, or zero where `b` is the larger.
constexpr Bytes saturating_sub(Bytes a, Bytes b) {
  return a > b ? Bytes{a.count - b.count} : Bytes{0};
}

/// Prints with a binary unit and at most three digits after the point, trailing zeros dropped: `0
/// B`, `512 B`, `1.5 GiB`, `900 MiB`. Rounded: for people, not for reading back.
std::string to_string(Bytes bytes);

/// Parses `12GiB`, `12GB`, `1.5 GiB`, `4096`, `64k`. Units: B; KB (1000), KiB (1024) and K (1024: a
/// lone letter means the binary unit, as in most tools that take sizes), and the same for M, G, T,
/// P, E. Case does not matter. Fractions are rounded down to a whole byte. Throws UserError naming
/// `what` and the text on anything else: negative, not a number, 2^64 and more.
Bytes parse_bytes(std::string_view text, std::string_view what);

}  // namespace spillway
