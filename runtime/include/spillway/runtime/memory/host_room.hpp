// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

struct FreeHostPages {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};
/// The memory of a copy that no budget counts any more. It is freed with the object, best after
/// every lock, since the kernel takes its time over large memory. Null where the room keeps it.
using HostPages = std::unique_ptr<std::byte, FreeHostPages>;

/// Host memory for copies, within a budget of its own, as the mover sees it. HostMemory is had of
/// the heap; PinnedHostMemory is page-locked, for the copies of a card. Guarded by its owner's
/// lock.
class HostRoom {
 public:
  virtual ~HostRoom() = default;
  HostRoom(const HostRoom&) = delete;
  HostRoom& operator=(const HostRoom&) = delete;

  /// A limit below what is used takes nothing away: the owner demotes down to it.
  virtual void set_limit(Bytes limit) = 0;
  /// Room for a copy of `bytes`, on a page; the caller owns it until `give_back`. Null if the
  /// budget has no room (`short_by`), or the machine no memory.
  [[nodiscard]] virtual std::byte* allocate(Bytes bytes) = 0;
  /// The room is free from now on, and the memory with what is returned. `bytes` as when it was
  /// allocated.
  [[nodiscard]] virtual HostPages give_back(std::byte* memory, Bytes bytes) noexcept = 0;

  /// Whether a copy of `bytes` could ever be here.
  [[nodiscard]] virtual bool could_hold(Bytes bytes) const = 0;
  /// The bytes that have to leave before a copy of `bytes` has room; zero if it has.
  [[nodiscard]] virtual Bytes short_by(Bytes bytes) const = 0;
  /// In copies.
  [[nodiscard]] virtual Bytes used() const = 0;

 protected:
  HostRoom() = default;
};

}  // namespace spillway::runtime
