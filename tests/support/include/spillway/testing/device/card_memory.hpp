// SPDX-License-Identifier: Apache-2.0
// The memory of a stand-in card, and its addresses.
//
//     addresses   |-------- what programs are given: never accessible to the processor ---------|
//     shadow      |-------- the same, `distance` further on: pages appear here when mapped -----|
//     memory      a memfd; a handle is a range of it, so it can be behind several addresses
//
// A touch of device memory by the processor faults, as it would with a card. New memory holds what
// its last owner left there.
// Not thread-safe: guarded by its owner's lock. Who runs the card's work uses shadow addresses
// without it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"
#include "spillway/testing/device/card_account.hpp"

namespace spillway::testing {

class CardMemory {
 public:
  /// `granule` is a multiple of 4096. `account`: the file of a card that processes share, or empty.
  CardMemory(Bytes memory, std::uint64_t granule, Bytes addresses, const std::string& account);
  ~CardMemory();
  CardMemory(const CardMemory&) = delete;
  CardMemory& operator=(const CardMemory&) = delete;

  // Nothing or false: what a driver would refuse. `create` gives nothing if the card is full.
  std::optional<runtime::DeviceAddress> reserve(Bytes bytes, std::uint64_t alignment);
  bool free_reservation(runtime::DeviceAddress address, Bytes bytes);
  bool valid_size(Bytes bytes) const { return bytes.count != 0 && bytes.count % granule_ == 0; }
  std::optional<runtime::PagesHandle> create(Bytes bytes);
  bool map(runtime::DeviceAddress address, Bytes bytes, runtime::PagesHandle handle);
  bool allow_access(runtime::DeviceAddress address, Bytes bytes);
  /// Lets other cards reach what is mapped there.
  bool share(runtime::DeviceAddress address, Bytes bytes);
  bool unmap(runtime::DeviceAddress address, Bytes bytes);
  bool release(runtime::PagesHandle handle);

  /// Whether work may read and write all of it.
  [[nodiscard]] bool accessible(runtime::DeviceAddress address, Bytes bytes) const;
  /// Whether other cards may reach all of it.
  [[nodiscard]] bool is_shared(runtime::DeviceAddress address, Bytes bytes) const;
  /// Whether it is one of the card's addresses, mapped or not.
  [[nodiscard]] bool holds(runtime::DeviceAddress address) const {
    return to_value(address) - base_ < addresses_.count;
  }
  [[nodiscard]] std::byte* shadow(runtime::DeviceAddress address) const {
    return reinterpret_cast<std::byte*>(to_value(address) + addresses_.count);
  }
  [[nodiscard]] Bytes total() const { return memory_; }
  [[nodiscard]] Bytes free() const { return account_.free(); }
  [[nodiscard]] Bytes used() const { return account_.used(); }
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  struct Pages {
    runtime::Extent extent;
    unsigned mappings = 0;
    bool released = false;
  };
  struct Mapping {
    Bytes bytes;
    std::uint64_t handle;
    bool accessible;
    bool shared;
  };
  using Mappings = std::map<std::uint64_t, Mapping>;

  /// Sets a property of the mappings that fill the range exactly; false if none do.
  bool set_everywhere(runtime::DeviceAddress address, Bytes bytes, bool Mapping::*property);
  /// Whether all of the range is mapped, and so everywhere.
  [[nodiscard]] bool is_everywhere(runtime::DeviceAddress address, Bytes bytes,
                                   bool Mapping::*property) const;

  [[nodiscard]] bool reserved(std::uint64_t begin, std::uint64_t bytes) const;
  /// The mappings that fill the range exactly; false if none do.
  bool whole_mappings(std::uint64_t begin, std::uint64_t bytes, Mappings::iterator& first,
                      Mappings::iterator& last);
  void drop_if_unused(std::uint64_t handle);

  const Bytes memory_;
  const std::uint64_t granule_;
  const Bytes addresses_;
  int file_;
  std::uintptr_t base_;
  std::uint64_t carved_ = 0;
  std::map<std::uint64_t, std::uint64_t> reservations_;  // begin -> bytes
  runtime::ExtentAllocator extents_;
  std::map<std::uint64_t, Pages> handles_;
  Mappings mappings_;
  std::uint64_t last_handle_ = 0;
  CardAccount account_;
  Bytes peak_{};  // the most that was ever used
};

}  // namespace spillway::testing
