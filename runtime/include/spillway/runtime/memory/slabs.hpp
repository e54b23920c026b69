// SPDX-License-Identifier: Apache-2.0
// Small objects: size classes in spans that are blocks of the arena.
//
// A class's first spans are small, later ones a quarter of what it holds, up to 256 KiB: programs
// use many classes, most of them for a few objects. Where memory is short a span is of one object,
// and of a page at least.
//
// Small storages never move (a transfer of 64 KiB is all latency), so slabs need only waste little
// and be quick. A span whose objects are all free goes back to the arena, the last one with room
// of its class when memory is short. Not thread-safe: guarded by the engine's lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/block.hpp"

namespace spillway::runtime {

/// One span: equal objects of one size class, free ones linked through their first bytes.
class SlabSpan {
 public:
  SlabSpan(Block& block, std::uint32_t object_class, std::uint64_t object_bytes);

  [[nodiscard]] bool full() const { return free_ == nullptr && unused_ == end_; }
  [[nodiscard]] bool empty() const { return live_ == 0; }
  [[nodiscard]] std::uint32_t object_class() const { return object_class_; }
  [[nodiscard]] std::uint64_t object_bytes() const { return object_bytes_; }
  [[nodiscard]] Block& block() const { return *block_; }
  /// An object for `bytes`.
  void* take(std::uint64_t bytes);
  /// Returns the bytes it was taken for.
  std::uint64_t give(void* object);

  bool listed = false;  ///< is among the spans of its class that have room

 private:
  Block* block_;
  std::uint32_t object_class_;
  std::uint64_t object_bytes_;
  [[nodiscard]] std::uint16_t& asked(const void* object);

  std::byte* unused_;
  std::byte* end_;
  void* free_ = nullptr;
  std::uint32_t live_ = 0;
  std::vector<std::uint16_t> asked_;  ///< bytes less one that each object was taken for
};

class Slabs {
 public:
  /// Objects up to this size are small; above it a block of its own wastes less than a page in 8.
  static constexpr std::uint64_t kLargestObject = 32 << 10;
  static constexpr std::uint64_t kLeastSpanBytes = 16 << 10;
  static constexpr std::uint64_t kMostSpanBytes = 256 << 10;

  Slabs();

  /// An object aligned to 64 bytes, or null if the class needs a span first (`add_span`).
  void* allocate(std::uint64_t bytes);

  /// Size of the next span for objects of `bytes`.
  [[nodiscard]] std::uint64_t span_bytes(std::uint64_t bytes) const;

  /// The least size that a span for them may have.
  [[nodiscard]] static std::uint64_t least_span_bytes(std::uint64_t bytes);

  /// Makes `block`, of one of these sizes, a span for objects of `bytes`.
  void add_span(Block& block, std::uint64_t bytes);

  /// Frees an object of `block`. Returns true if the span is empty now and was removed: the caller
  /// gives the block back to the arena.
  bool free(Block& block, void* object);

  /// Pages of the spans that have no object.
  [[nodiscard]] Bytes in_empty_spans() const;
  /// Removes those spans and appends their blocks, which the caller gives back.
  void remove_empty_spans(std::vector<Block*>& blocks);

  [[nodiscard]] Bytes live() const { return live_; }  ///< objects, rounded up to their class
  /// Pages of all spans, less what was asked for: rounding, and objects that are free.
  [[nodiscard]] Bytes unasked() const { return held_ - asked_; }

 private:
  static std::uint32_t class_of(std::uint64_t bytes);
  static std::uint64_t class_bytes(std::uint32_t object_class);
  void forget(SlabSpan& span);

  std::vector<std::vector<SlabSpan*>> with_room_;  // per class; the last one is allocated from
  std::vector<std::uint64_t> live_in_class_;       // bytes
  std::deque<SlabSpan> spans_;
  std::vector<SlabSpan*> unused_spans_;
  Bytes live_{};
  Bytes held_{};   // pages of spans
  Bytes asked_{};  // for live objects
};

}  // namespace spillway::runtime
