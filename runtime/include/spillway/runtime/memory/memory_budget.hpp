// SPDX-License-Identifier: Apache-2.0
// The byte account of one tier: reserve before allocate.
//
//     limit  |------------------------------------------------|
//     used   |== pages held ==|== reserved, not yet pages ====|
//
// `try_reserve` promises bytes or refuses. The promise is a move-only token; spending it turns the
// promise into held pages, dropping it returns the bytes. Held pages are returned by `give_back`.
// Guarded by its owner's lock, except `limit`, which any thread may read.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

class MemoryBudget;

/// Whether a reservation may exceed the limit. Exceeding is counted as overshoot, never silent.
enum class Overbooking : bool { kRefuse, kAllow };

/// Bytes promised by a budget. Dropping the token gives them back.
class [[nodiscard]] MemoryReservation {
 public:
  MemoryReservation() = default;
  MemoryReservation(MemoryReservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
  MemoryReservation& operator=(MemoryReservation&& other) noexcept;
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
  ~MemoryReservation() { cancel(); }

  [[nodiscard]] Bytes bytes() const { return bytes_; }

  /// Turns `bytes` of the promise into held pages; the caller owes a `give_back` for them.
  /// Throws InternalError if more is spent than was promised.
  void spend(Bytes bytes);

 private:
  friend class MemoryBudget;
  MemoryReservation(MemoryBudget* budget, Bytes bytes) : budget_(budget), bytes_(bytes) {}
  void cancel();

  MemoryBudget* budget_ = nullptr;
  Bytes bytes_{};
};

class MemoryBudget {
 public:
  explicit MemoryBudget(Bytes limit) : limit_(limit.count) {}

  /// Returns nothing if `bytes` do not fit and overbooking is refused.
  std::optional<MemoryReservation> try_reserve(Bytes bytes, Overbooking overbooking);

  /// Pages that were held are no more.
  void give_back(Bytes bytes);

  /// A lower limit than what is used takes nothing away: the owner evicts down to it.
  void set_limit(Bytes limit) { limit_.store(limit.count, std::memory_order_relaxed); }

  [[nodiscard]] Bytes limit() const { return {limit_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes used() const { return used_; }
  [[nodiscard]] Bytes available() const { return saturating_sub(limit(), used_); }
  /// High-water mark of `used` since construction or `reset_peak`.
  [[nodiscard]] Bytes peak() const { return peak_; }
  /// Most that `used` ever exceeded `limit` by.
  [[nodiscard]] Bytes overshoot() const { return overshoot_; }
  void reset_peak();

 private:
  std::atomic<std::uint64_t> limit_;
  Bytes used_{};
  Bytes peak_{};
  Bytes overshoot_{};
};

}  // namespace spillway::runtime
