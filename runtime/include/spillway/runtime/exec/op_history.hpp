// SPDX-License-Identifier: Apache-2.0
// The latest ops of a stream and the storages they touched, in two rings.
//
//     signature   a   b   c   (d running)       op i touches storages [start(i), start(i + 1))
//     start       0   2   3   5
//     storage     x y z   x z
//
// Ops and touches keep their number for life; a number under a mask is a place in the ring, whose
// size is a power of two. The caller decides when a full ring grows and when it discards instead.
// The ops read must be remembered: see remembers(). Single-threaded; throws only std::bad_alloc.
//
// Source of the window hash: Karp and Rabin, "Efficient randomized pattern-matching algorithms",
// IBM J. Res. Dev. 31(2), 1987; not rolled, since it is needed only off the path.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace spillway::runtime {

class OpHistory {
 public:
  static constexpr std::uint64_t kFirstOps = 1U << 10;
  static constexpr std::uint64_t kFirstTouches = 1U << 12;
  static constexpr std::uint64_t kMostOps = 1U << 20;
  static constexpr std::uint64_t kMostTouches = 1U << 22;
  static constexpr std::uint64_t kWindow = 16;  ///< see StepRecogniser::kWindow

  OpHistory() : signatures_(kFirstOps), starts_(kFirstOps), storages_(kFirstTouches) {}

  std::uint64_t ops() const { return ops_; }
  std::uint64_t touches() const { return touches_; }
  std::uint64_t op_capacity() const { return op_mask_ + 1; }

  std::uint64_t signature(std::uint64_t op) const { return signatures_[op & op_mask_]; }
  std::uint64_t start(std::uint64_t op) const { return starts_[op & op_mask_]; }
  /// `op` must have ended.
  std::uint64_t touch_count(std::uint64_t op) const { return start(op + 1) - start(op); }
  std::uint64_t storage(std::uint64_t touch) const { return storages_[touch & touch_mask_]; }

  /// The next op would overwrite one: call grow_ops or discard_ops first.
  bool ops_full() const { return ops_ == ops_full_at_; }
  void add_op(std::uint64_t signature) {
    signatures_[ops_ & op_mask_] = signature;
    starts_[ops_ & op_mask_] = touches_;
    ++ops_;
  }
  bool touches_full() const { return touches_ == touches_full_at_; }
  void add_touch(std::uint64_t storage) { storages_[touches_++ & touch_mask_] = storage; }

  void discard_ops() { ops_full_at_ = ops_ + op_mask_ + 1; }
  void grow_ops();
  /// Doubles the touches if they reach back less far than the ops; at most kMostTouches, else
  /// discards the oldest.
  void extend_touches();

  bool remembers(std::uint64_t op) const {
    return op >= first_kept_op_ && op + op_mask_ + 1 >= ops_;
  }
  /// All touches from that op on.
  bool remembers_touches(std::uint64_t first_op) const {
    return remembers(first_op) && start(first_op) >= first_kept_touch_ &&
           start(first_op) + touch_mask_ + 1 >= touches_;
  }

  /// Same signature, as many touches.
  bool same_op(std::uint64_t a, std::uint64_t b) const {
    return signature(a) == signature(b) && touch_count(a) == touch_count(b);
  }
  /// The kWindow ops before `a` are the same as those before `b`.
  bool same_window(std::uint64_t a, std::uint64_t b) const {
    for (std::uint64_t i = 1; i <= kWindow; ++i) {
      if (!same_op(a - i, b - i)) {
        return false;
      }
    }
    return true;
  }
  /// The hash of the kWindow ops before `op`, all of which have ended.
  std::uint64_t window_hash(std::uint64_t op) const {
    std::uint64_t hash = 0;
    for (std::uint64_t i = op - kWindow; i < op; ++i) {
      hash = mix(hash, signature(i) + (touch_count(i) << 56));
    }
    return hash;
  }

  static constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15ULL;  // 2^64 / golden ratio
    return std::rotl((hash ^ value) * kOdd, 29);
  }

 private:
  std::uint64_t ops_ = 0;
  std::uint64_t touches_ = 0;
  std::uint64_t op_mask_ = kFirstOps - 1;
  std::uint64_t touch_mask_ = kFirstTouches - 1;
  std::uint64_t ops_full_at_ = kFirstOps;
  std::uint64_t touches_full_at_ = kFirstTouches;
  std::uint64_t first_kept_op_ = 0;  ///< older ones were gone when the ring grew
  std::uint64_t first_kept_touch_ = 0;
  std::vector<std::uint64_t> signatures_;
  std::vector<std::uint64_t> starts_;
  std::vector<std::uint64_t> storages_;
};

inline void OpHistory::grow_ops() {
  const std::uint64_t capacity = op_mask_ + 1;
  const std::uint64_t mask = 2 * capacity - 1;
  first_kept_op_ = std::max(first_kept_op_, ops_ - capacity);
  std::vector<std::uint64_t> signatures(2 * capacity);
  std::vector<std::uint64_t> starts(2 * capacity);
  for (std::uint64_t op = first_kept_op_; op < ops_; ++op) {
    signatures[op & mask] = signature(op);
    starts[op & mask] = start(op);
  }
  starts[ops_ & mask] = touches_;  // the end of the last op, until the next one is added
  signatures_.swap(signatures);
  starts_.swap(starts);
  op_mask_ = mask;
  ops_full_at_ = ops_ + capacity;
}

inline void OpHistory::extend_touches() {
  const std::uint64_t capacity = touch_mask_ + 1;
  const std::uint64_t oldest = ops_ > op_mask_ ? ops_ - op_mask_ - 1 : 0;
  touches_full_at_ = touches_ + capacity;
  const bool covers_ops =
      ops_ != 0 && start(std::max(oldest, first_kept_op_)) + capacity > touches_;
  if (capacity == kMostTouches || covers_ops) {
    return;
  }
  const std::uint64_t mask = 2 * capacity - 1;
  first_kept_touch_ = std::max(first_kept_touch_, touches_ - capacity);
  std::vector<std::uint64_t> storages(2 * capacity);
  for (std::uint64_t touch = first_kept_touch_; touch < touches_; ++touch) {
    storages[touch & mask] = storage(touch);
  }
  storages_.swap(storages);
  touch_mask_ = mask;
}

}  // namespace spillway::runtime
