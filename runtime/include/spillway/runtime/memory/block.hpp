// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

class SlabSpan;
struct StorageRecord;

/// A range of addresses, and the pages behind its front.
///
///     address          address + resident              address + capacity
///        |===== pages held =====|----- addresses only ---------|
///        |---- bytes asked for ----|
///
/// The addresses belong to the block for the life of the process: a block is reused, never unmapped
/// or handed to another size class. So a stale pointer never meets foreign memory.
struct Block {
  std::byte* address = nullptr;
  std::uint64_t capacity = 0;  ///< bytes of address space, a multiple of the page
  std::uint64_t bytes = 0;     ///< asked for by the present user
  std::uint64_t resident = 0;  ///< bytes of pages held, a multiple of the page
  std::uint64_t huge = 0;      ///< bytes at the front that the kernel may back with huge pages
  std::uint32_t size_class = 0;
  bool accessible = false;  ///< mapped read-write; else any access faults
  bool in_use = false;

  SlabSpan* span = nullptr;         ///< set while the block holds small objects
  StorageRecord* record = nullptr;  ///< set while the block is one storage's memory

  Block* next_freed = nullptr;  ///< link of the list of blocks freed without the lock
  // Links of the free lists: within the size class, and by age over all classes.
  Block* class_previous = nullptr;
  Block* class_next = nullptr;
  Block* age_previous = nullptr;
  Block* age_next = nullptr;
};

}  // namespace spillway::runtime
