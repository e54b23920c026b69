// SPDX-License-Identifier: Apache-2.0
// Small objects: size classes in spans of 256 KiB that are blocks of the arena.
//
// Small storages never move (a transfer of 64 KiB is all latency), so all this has to do is waste
// little and be quick. A span whose objects are all free goes back to the arena. Not thread-safe:
// guarded by the engine's lock.
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
  void* take();
  void give(void* object);

  bool listed = false;  ///< is among the spans of its class that have room

 private:
  Block* block_;
  std::uint32_t object_class_;
  std::uint64_t object_bytes_;
  std::byte* unused_;
  std::byte* end_;
  void* free_ = nullptr;
  std::uint32_t live_ = 0;
};

class Slabs {
 public:
  /// Objects up to this size are small; above it a block of its own wastes less than a page in 8.
  static constexpr std::uint64_t kLargestObject = 32 << 10;
  static constexpr std::uint64_t kSpanBytes = 256 << 10;

  Slabs();

  /// An object aligned to 64 bytes, or null if the class needs a span first (`add_span`).
  void* allocate(std::uint64_t bytes);

  /// Makes `block` (of kSpanBytes) a span for objects of `bytes`.
  void add_span(Block& block, std::uint64_t bytes);

  /// Frees an object of `block`. Returns true if the span is empty now and was removed: the caller
  /// gives the block back to the arena.
  bool free(Block& block, void* object);

  [[nodiscard]] Bytes live() const { return live_; }

 private:
  static std::uint32_t class_of(std::uint64_t bytes);
  static std::uint64_t class_bytes(std::uint32_t object_class);

  std::vector<std::vector<SlabSpan*>> with_room_;  // per class; the last one is allocated from
  std::deque<SlabSpan> spans_;
  std::vector<SlabSpan*> unused_spans_;
  Bytes live_{};
};

}  // namespace spillway::runtime
