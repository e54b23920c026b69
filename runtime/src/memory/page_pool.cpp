// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/page_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

#ifndef MREMAP_DONTUNMAP  // glibc before 2.32
#define MREMAP_DONTUNMAP 4
#endif

namespace spillway::runtime {

namespace {

// What Linux allows unless told otherwise (DEFAULT_MAX_MAP_COUNT).
constexpr std::uint64_t kDefaultMappings = 65'530;

std::uint64_t allowed_mappings() {
  std::uint64_t allowed = kDefaultMappings;
  std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
  return allowed;
}

bool remap(std::byte* from, std::byte* to, std::uint64_t bytes) {
  if (fault_at("pool.move")) return false;
  return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
         MAP_FAILED;
}

/// Moves one chunk of a small mapping there and looks whether it arrived and left no hole.
bool moving_works() {
  constexpr std::uint64_t kLength = 3 * kChunk;  // two aligned chunks, wherever it starts
  void* range = ::mmap(nullptr, kLength, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return false;
  auto* const first = reinterpret_cast<std::byte*>(
      round_up({reinterpret_cast<std::uintptr_t>(range)}, kChunk).count);
  *first = std::byte{1};
  const bool moved = remap(first, first + kChunk, kChunk);
  const bool works = moved && first[kChunk] == std::byte{1} && first[0] == std::byte{0};
  ::munmap(range, kLength);
  return works;
}

std::string find_reason() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!std::getline(file, line)) return "the kernel has no transparent huge pages";
  if (line.find("[never]") != std::string::npos) {
    return "transparent huge pages are off (/sys/kernel/mm/transparent_hugepage/enabled)";
  }
  if (!moving_works()) return "the kernel does not move pages (mremap with MREMAP_DONTUNMAP)";
  return "";
}

}  // namespace

const std::string& PagePool::why_not() {
  static const std::string reason = find_reason();
  return reason;
}

PagePool::PagePool() : most_pieces_(allowed_mappings() / 2) {}

std::uint64_t PagePool::move(Block& source, Block& target, std::uint64_t count) {
  std::uint64_t moved = 0;
  const bool was_accessible = source.accessible;
  while (moved < count && source.chunks() != 0) {
    const std::uint64_t last = source.chunks();
    const std::uint64_t first_of_piece = source.pieces.back();
    const std::uint64_t run = std::min(count - moved, last - first_of_piece);
    if (pieces_ >= most_pieces_ && run != last - first_of_piece) return moved;  // it would add one
    std::byte* const from = source.base + (last - run) * kChunk;
    if (!remap(from, target.base + target.resident, run * kChunk)) return moved;
    // Of a stale pointer into what was left behind nothing may come but a fault.
    if (was_accessible) ::mprotect(from, run * kChunk, PROT_NONE);
    source.accessible = false;
    if (run == last - first_of_piece) {
      source.pieces.pop_back();
      --pieces_;
    }
    target.pieces.push_back(static_cast<std::uint32_t>(target.chunks()));
    ++pieces_;
    source.resident -= run * kChunk;
    target.resident += run * kChunk;
    moved += run;
  }
  moved_chunks_ += moved;
  return moved;
}

void PagePool::note_fresh(Block& block, std::uint64_t first) {
  if (first >= block.chunks()) return;
  block.pieces.push_back(static_cast<std::uint32_t>(first));
  ++pieces_;
}

void PagePool::note_released(Block& block) {
  pieces_ -= block.pieces.size();
  block.pieces.clear();
}

}  // namespace spillway::runtime
