// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/page_map.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "spillway/base/error.hpp"
#include "spillway/runtime/memory/block.hpp"

namespace spillway::runtime {

namespace {

// Addresses for which the map becomes writable at once: 128 KiB of it.
constexpr std::uint64_t kWritableStep = std::uint64_t{1} << 30;

std::uint64_t size_of_entries(std::uint64_t addresses) {
  return addresses / PageMap::kGranule * sizeof(std::atomic<Block*>);
}

void* map_reserved(std::uint64_t bytes, int protection, std::byte* where = nullptr) {
  const int fixed = where == nullptr ? 0 : MAP_FIXED;
  return ::mmap(where, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1,
                0);
}

void advise(void* range, std::uint64_t bytes) {
  // Children may inherit hundreds of gibibytes of reservation: keep it out of core dumps.
  ::madvise(range, bytes, MADV_DONTDUMP);
  // Huge pages only where a block asks for them: elsewhere they would back more than is accounted.
  ::madvise(range, bytes, MADV_NOHUGEPAGE);
  // After mlockall(MCL_FUTURE) all of it would be locked, and get pages as it becomes accessible.
  ::munlock(range, bytes);
}

}  // namespace

PageMap::PageMap(Bytes reservation, Bytes minimum) {
  void* range = MAP_FAILED;
  void* entries = MAP_FAILED;
  std::uint64_t bytes = reservation.count;
  for (; bytes >= minimum.count; bytes /= 4) {
    range = map_reserved(bytes, PROT_NONE);
    if (range == MAP_FAILED) continue;
    // Writable as far as it is needed: mlockall gets pages for all that is.
    entries = map_reserved(size_of_entries(bytes), PROT_READ);
    if (entries != MAP_FAILED) break;
    ::munmap(range, bytes);
    range = MAP_FAILED;
  }
  if (range == MAP_FAILED) {
    throw UserError(fmt::format(
        "cannot reserve address space for tensors: need at least {}; raise the limit (ulimit -v)",
        to_string(minimum)));
  }
  advise(range, bytes);
  ::munlock(entries, size_of_entries(bytes));
  base_ = reinterpret_cast<std::uintptr_t>(range);
  size_ = bytes;
  entries_ = static_cast<std::atomic<Block*>*>(entries);
}

PageMap::~PageMap() {
  ::munmap(reinterpret_cast<void*>(base_), size_);  // NOLINT(performance-no-int-to-ptr)
  ::munmap(static_cast<void*>(entries_), size_of_entries(size_));
}

std::byte* PageMap::carve(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t start = ((base_ + next_ + alignment - 1) & ~(alignment - 1)) - base_;
  const std::uint64_t end = round_up({start + bytes}, kGranule).count;
  if (start > size_ || end > size_ || !make_entries_writable(end)) return nullptr;
  next_ = end;
  return reinterpret_cast<std::byte*>(base_ + start);
}

bool PageMap::make_entries_writable(std::uint64_t addresses) {
  if (addresses <= writable_to_) return true;
  const std::uint64_t wanted = std::min(size_, round_up({addresses}, kWritableStep).count);
  const std::uint64_t bytes = round_up({wanted / kGranule * sizeof *entries_}, kPage).count;
  if (::mprotect(static_cast<void*>(entries_), bytes, PROT_READ | PROT_WRITE) != 0) return false;
  writable_to_ = wanted;
  return true;
}

void PageMap::unlock() const {
  ::munlock(reinterpret_cast<void*>(base_), size_);  // NOLINT(performance-no-int-to-ptr)
}

bool PageMap::renew(std::byte* address, std::uint64_t bytes) {
  if (map_reserved(bytes, PROT_NONE, address) == MAP_FAILED) return false;
  advise(address, bytes);
  return true;
}

void PageMap::assign(Block& block) {
  const auto first = (reinterpret_cast<std::uintptr_t>(block.base) - base_) / kGranule;
  const auto count = round_up({block.capacity}, kGranule).count / kGranule;
  for (std::uint64_t i = 0; i < count; ++i) {
    entries_[first + i].store(&block, std::memory_order_release);
  }
}

}  // namespace spillway::runtime
