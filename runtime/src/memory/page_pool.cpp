// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/page_pool.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "remap.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

#ifndef MREMAP_DONTUNMAP  // glibc before 2.32
#define MREMAP_DONTUNMAP 4
#endif

namespace spillway::runtime {

namespace {

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
  // Inherited by children, of a container's first process too.
  if (::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1) {
    return "transparent huge pages are off for this process (PR_SET_THP_DISABLE)";
  }
  if (!PagePool::kernel_moves_pages())
    return "the kernel does not move pages (mremap with MREMAP_DONTUNMAP)";
  return "";
}

}  // namespace

bool remap(std::byte* from, std::byte* to, std::uint64_t bytes) {
  return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
         MAP_FAILED;
}

const std::string& PagePool::why_not() {
  static const std::string reason = find_reason();
  return reason;
}

bool PagePool::kernel_moves_pages() {
  static const bool works = moving_works();
  return works;
}

std::uint64_t PagePool::move(Block& source, Block& target, std::uint64_t count) {
  std::uint64_t moved = 0;
  const bool was_accessible = source.accessible;
  while (moved < count && source.chunks() != 0 && mappings_.may_move()) {
    const std::uint64_t last = source.chunks();
    // The kernel moves what is in one mapping.
    const auto cut = std::ranges::lower_bound(source.cuts, last);
    const std::uint64_t first_of_piece = cut == source.cuts.begin() ? 0 : *(cut - 1);
    const std::uint64_t run = std::min(count - moved, last - first_of_piece);
    const std::uint64_t first = last - run;
    std::byte* const from = source.base + first * kChunk;
    std::byte* const to = target.base + target.resident;
    if (fault_at("pool.move") || !remap(from, to, run * kChunk)) return moved;
    // A stale pointer into what was left behind must fault.
    if (was_accessible) {
      ::mprotect(from, run * kChunk, PROT_NONE);
      mappings_.cut(source, first);
      mappings_.cut(source, last);
    }
    source.accessible = source.sealed = false;
    const std::uint64_t arrived = target.chunks();
    mappings_.join(target, arrived, arrived + run);
    mappings_.cut(target, arrived);
    mappings_.cut(target, arrived + run);
    source.resident -= run * kChunk;
    target.resident += run * kChunk;
    moved += run;
  }
  moved_chunks_ += moved;
  return moved;
}

}  // namespace spillway::runtime
