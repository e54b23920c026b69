// SPDX-License-Identifier: Apache-2.0
// How bytes come back without being seen half-way: copied into pages of another block, which the
// kernel then moves behind the addresses that they belong to.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "remap.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory/arena.hpp"

namespace spillway::runtime {

Block* Arena::claim_landing(Block& block) {
  if (!lands_ || !mappings_.may_move()) return nullptr;
  Block* const landing = take_vacant(block.size_class);
  if (landing == nullptr) return nullptr;
  landing->address = landing->base + block.colour();
  if (pool_ && block.chunks() != 0) {
    drop_tail(block);
    pool_->move(block, *landing, pages_of(block, {block.bytes}) / kChunk);
    landing->accessible = landing->sealed = false;
    landing->huge = std::max(landing->huge, landing->resident);
  }
  release_pages(block);
  return landing;
}

bool Arena::land(Block& block) {
  if (block.landing == nullptr) return true;
  Block& landing = *std::exchange(block.landing, nullptr);
  const bool landed = carry(landing, block);
  mappings_.copy_cuts(landing, block);
  block.huge = landing.huge;
  block.forks = landing.forks;
  block.accessible = landed;
  block.sealed = false;
  if (landed) {
    landing.resident = 0;
  } else {
    protect(block);
    to_kernel(block.base, std::exchange(block.resident, 0));
    release_pages(landing);
  }
  landing.in_use = false;
  landing.bytes = 0;
  // As one mapping it costs nothing but its edges; what it was made of is the block's now.
  if (!landing.cuts.empty() && PageMap::renew(landing.base, landing.capacity)) {
    mappings_.clear_cuts(landing);
    landing.accessible = landing.sealed = false;
    landing.huge = 0;
  }
  vacant_[landing.size_class].push_back(&landing);
  return landed;
}

// Piece by piece, since the kernel moves what is in one mapping; with what holds no pages, since
// `to` becomes accessible by it. A piece that it refuses to move (the program has too many
// mappings) is copied, for which there is room for one such piece more than was reserved.
bool Arena::carry(Block& from, Block& to) {
  std::uint64_t begin = 0;
  for (std::size_t piece = 0; begin < from.capacity; ++piece) {
    const std::uint64_t end = piece < from.cuts.size() ? from.cuts[piece] * kChunk : from.capacity;
    if (fault_at("arena.land") || !remap(from.base + begin, to.base + begin, end - begin)) {
      if (::mprotect(to.base + begin, end - begin, PROT_READ | PROT_WRITE) != 0) return false;
      const std::uint64_t bytes = std::max(begin, std::min(end, from.resident)) - begin;
      std::memcpy(to.base + begin, from.base + begin, bytes);
      to.resident = begin + bytes;
      to_kernel(from.base + begin, bytes);
    }
    to.resident = std::min(end, from.resident);
    begin = end;
  }
  return true;
}

// Its pages are as good as those of a freed block.
void Arena::abandon_landing(Block& block) {
  if (block.landing == nullptr) return;
  Block& landing = *std::exchange(block.landing, nullptr);
  landing.in_use = false;
  landing.bytes = 0;
  landing.intact = false;
  if (was_shared(landing)) release_pages(landing);
  give_up(landing);
}

}  // namespace spillway::runtime
