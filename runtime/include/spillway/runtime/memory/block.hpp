// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/device_block.hpp"

namespace spillway::runtime {

class SlabSpan;

inline constexpr std::uint64_t kPage = 4096;

/// Unit in which held pages move between blocks: a huge page.
inline constexpr std::uint64_t kChunk = std::uint64_t{2} << 20;

class BlockList;

/// A block of the machine's RAM: a range of addresses, and the pages behind its front.
///
///     base   address                 base + resident              base + capacity
///      |======|======= pages held ==========|----- addresses only ---------|
///       colour |---- bytes asked for ----|
///          |lead|   from the start of the first page that is used
///
/// A block is reused, never unmapped or handed to another size class.
///
/// The whole chunks at the front of what is held can be moved to other blocks (see PagePool); the
/// rest, less than a chunk, is the *tail*.
struct Block : DeviceBlock {
  std::byte* base = nullptr;
  std::uint64_t capacity = 0;  ///< bytes of address space, a multiple of the page
  std::uint64_t resident = 0;  ///< bytes of pages held, a multiple of the page
  std::uint64_t huge = 0;      ///< bytes at the front that the kernel may back with huge pages
  std::uint32_t size_class = 0;
  std::uint32_t given_colour = 0;  ///< bytes from `base` to `address`, unless it has Colouring::kNo
  std::uint32_t forks = 0;         ///< of the process, before it was opened last
  bool in_use = false;

  SlabSpan* span = nullptr;  ///< set while the block holds small objects
  Block* landing = nullptr;  ///< has the pages that its bytes are copied into (see Arena)

  Block* next_freed = nullptr;  ///< link of the list of blocks freed without the lock
  // Links of the free lists: within the size class, and by age over all classes.
  Block* class_previous = nullptr;
  Block* class_next = nullptr;
  BlockList* list = nullptr;  ///< by age: the one it is in
  std::uint64_t listed_at = 0;
  Block* age_previous = nullptr;
  Block* age_next = nullptr;
  std::vector<std::uint32_t> cuts;  ///< chunks where a mapping may begin (see MappingCount), sorted

  /// Nobody needs its pages now: they are anyone's.
  [[nodiscard]] bool idle() const { return list != nullptr; }
  /// The block whose pages are, or will be, behind the addresses of this one.
  [[nodiscard]] const Block& holder() const { return landing != nullptr ? *landing : *this; }
  /// Bytes of pages that are held for its user, and nobody else may have.
  [[nodiscard]] std::uint64_t held() const { return idle() ? 0 : holder().resident; }
  [[nodiscard]] std::uint64_t chunks() const { return resident / kChunk; }
  [[nodiscard]] std::uint64_t colour() const { return static_cast<std::uint64_t>(address - base); }
  [[nodiscard]] std::uint64_t lead() const { return colour() % kPage; }
};

/// For the tier that made it, all of whose blocks are of this kind.
inline Block& as_block(DeviceBlock& block) { return static_cast<Block&>(block); }
inline const Block& as_block(const DeviceBlock& block) { return static_cast<const Block&>(block); }

}  // namespace spillway::runtime
