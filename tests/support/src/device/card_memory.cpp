// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/card_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <iterator>

#include "spillway/base/error.hpp"

namespace spillway::testing {

using runtime::DeviceAddress;
using runtime::PagesHandle;

namespace {

// How much of the file may lie between handles: only what handles hold counts as memory.
constexpr std::uint64_t kFileFactor = 64;

}  // namespace

CardMemory::CardMemory(Bytes memory, std::uint64_t granule, Bytes addresses,
                       const std::string& account)
    : memory_(memory),
      granule_(granule),
      addresses_(addresses),
      file_(memfd_create("stand-in card", MFD_CLOEXEC)),
      account_(memory, account) {
  SPILLWAY_CHECK(file_ >= 0, "no memfd");
  SPILLWAY_CHECK(ftruncate(file_, static_cast<off_t>(memory.count * kFileFactor)) == 0, "memfd");
  void* const both = mmap(nullptr, 2 * addresses.count, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SPILLWAY_CHECK(both != MAP_FAILED, "no addresses");
  base_ = reinterpret_cast<std::uintptr_t>(both);
}

CardMemory::~CardMemory() {
  munmap(reinterpret_cast<void*>(base_), 2 * addresses_.count);
  close(file_);
}

std::optional<DeviceAddress> CardMemory::reserve(Bytes bytes, std::uint64_t alignment) {
  const std::uint64_t unit = std::max(alignment, granule_);
  const std::uint64_t begin = (base_ + carved_ + unit - 1) / unit * unit;
  if (!valid_size(bytes) || begin + bytes.count > base_ + addresses_.count) return std::nullopt;
  carved_ = begin + bytes.count - base_;
  reservations_[begin] = bytes.count;
  return DeviceAddress{begin};
}

bool CardMemory::free_reservation(DeviceAddress address, Bytes bytes) {
  const auto found = reservations_.find(to_value(address));
  if (found == reservations_.end() || found->second != bytes.count) return false;
  const auto mapped = mappings_.lower_bound(found->first);
  if (mapped != mappings_.end() && mapped->first < found->first + bytes.count) return false;
  reservations_.erase(found);
  return true;
}

std::optional<PagesHandle> CardMemory::create(Bytes bytes) {
  if (!account_.take(bytes)) return std::nullopt;
  const runtime::Extent extent = extents_.allocate(bytes);
  SPILLWAY_CHECK(extent.offset + extent.bytes <= memory_.count * kFileFactor, "file too short");
  peak_ = std::max(peak_, used());
  handles_[++last_handle_] = {extent};
  return PagesHandle{last_handle_};
}

bool CardMemory::reserved(std::uint64_t begin, std::uint64_t bytes) const {
  auto after = reservations_.upper_bound(begin);
  if (after == reservations_.begin()) return false;
  --after;
  return begin + bytes <= after->first + after->second;
}

bool CardMemory::map(DeviceAddress address, Bytes bytes, PagesHandle handle) {
  const std::uint64_t begin = to_value(address);
  const auto pages = handles_.find(static_cast<std::uint64_t>(handle));
  if (pages == handles_.end() || pages->second.extent.bytes != bytes.count ||
      begin % granule_ != 0 || !reserved(begin, bytes.count)) {
    return false;
  }
  const auto next = mappings_.lower_bound(begin);
  if (next != mappings_.end() && next->first < begin + bytes.count) return false;
  if (next != mappings_.begin() &&
      std::prev(next)->first + std::prev(next)->second.bytes.count > begin) {
    return false;
  }
  void* const place = mmap(shadow(address), bytes.count, PROT_NONE, MAP_SHARED | MAP_FIXED, file_,
                           static_cast<off_t>(pages->second.extent.offset));
  SPILLWAY_CHECK(place != MAP_FAILED, "the stand-in cannot map");
  ++pages->second.mappings;
  mappings_[begin] = {bytes, pages->first, false, false};
  return true;
}

bool CardMemory::whole_mappings(std::uint64_t begin, std::uint64_t bytes, Mappings::iterator& first,
                                Mappings::iterator& last) {
  std::uint64_t at = begin;
  first = last = mappings_.find(begin);
  while (last != mappings_.end() && last->first == at && at < begin + bytes) {
    at += last->second.bytes.count;
    ++last;
  }
  return at == begin + bytes && bytes != 0;
}

bool CardMemory::allow_access(DeviceAddress address, Bytes bytes) {
  if (!set_everywhere(address, bytes, &Mapping::accessible)) return false;
  SPILLWAY_CHECK(mprotect(shadow(address), bytes.count, PROT_READ | PROT_WRITE) == 0, "mprotect");
  return true;
}

bool CardMemory::share(DeviceAddress address, Bytes bytes) {
  return set_everywhere(address, bytes, &Mapping::shared);
}

bool CardMemory::set_everywhere(DeviceAddress address, Bytes bytes, bool Mapping::*property) {
  Mappings::iterator first;
  Mappings::iterator last;
  if (!whole_mappings(to_value(address), bytes.count, first, last)) return false;
  for (; first != last; ++first) first->second.*property = true;
  return true;
}

bool CardMemory::unmap(DeviceAddress address, Bytes bytes) {
  Mappings::iterator first;
  Mappings::iterator last;
  if (!whole_mappings(to_value(address), bytes.count, first, last)) return false;
  void* const place = mmap(shadow(address), bytes.count, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  SPILLWAY_CHECK(place != MAP_FAILED, "the stand-in cannot unmap");
  while (first != last) {
    const std::uint64_t handle = first->second.handle;
    --handles_.at(handle).mappings;
    first = mappings_.erase(first);
    drop_if_unused(handle);
  }
  return true;
}

bool CardMemory::release(PagesHandle handle) {
  const auto found = handles_.find(static_cast<std::uint64_t>(handle));
  if (found == handles_.end() || found->second.released) return false;
  found->second.released = true;
  drop_if_unused(found->first);
  return true;
}

void CardMemory::drop_if_unused(std::uint64_t handle) {
  const auto found = handles_.find(handle);
  if (found->second.mappings != 0 || !found->second.released) return;
  account_.give_back({found->second.extent.bytes});
  extents_.free(found->second.extent);
  handles_.erase(found);
}

bool CardMemory::accessible(DeviceAddress address, Bytes bytes) const {
  return is_everywhere(address, bytes, &Mapping::accessible);
}

bool CardMemory::is_shared(DeviceAddress address, Bytes bytes) const {
  return is_everywhere(address, bytes, &Mapping::shared);
}

bool CardMemory::is_everywhere(DeviceAddress address, Bytes bytes, bool Mapping::*property) const {
  std::uint64_t at = to_value(address);
  const std::uint64_t end = at + bytes.count;
  auto mapping = mappings_.upper_bound(at);
  if (mapping == mappings_.begin()) return false;
  for (--mapping; at < end; ++mapping) {
    if (mapping == mappings_.end() || mapping->first > at || !(mapping->second.*property)) {
      return false;
    }
    const std::uint64_t reached = mapping->first + mapping->second.bytes.count;
    if (reached <= at) return false;
    at = reached;
  }
  return true;
}

}  // namespace spillway::testing
