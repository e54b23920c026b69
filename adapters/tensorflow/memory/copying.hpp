// SPDX-License-Identifier: Apache-2.0
// The makers of copies of tensors that leave, as waiting_tensors.hpp knows them: the store
// (swap_store.hpp) for a processor's tensors, page-locked memory (card_copies.hpp) for a card's.
//
// Ownership: a copy goes with its last owner. A maker's functions may be called by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::tf {

/// A hold on a tensor of the framework's.
class Held {
 public:
  Held() = default;
  virtual ~Held() = default;  ///< lets go
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  [[nodiscard]] virtual const std::byte* data() const = 0;
  /// Nobody else holds it and its memory is of the budget, so that letting go frees that.
  [[nodiscard]] virtual bool is_sole() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Held> share() const = 0;
};

/// The bytes of a tensor, in another place.
class Copy {
 public:
  explicit Copy(Bytes bytes) : bytes_(bytes) {}
  virtual ~Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

/// Null with a reason where no copy could be made: the tensor stays where it is. An empty reason is
/// one that was told before.
using SwapOutDone = std::function<void(std::shared_ptr<Copy> copy, const std::string& reason)>;

class CopyMaker {
 public:
  CopyMaker() = default;
  virtual ~CopyMaker() = default;
  CopyMaker(const CopyMaker&) = delete;
  CopyMaker& operator=(const CopyMaker&) = delete;

  /// Names a swap-out that may be taken back; 0 names none.
  using Ticket = std::uint64_t;
  /// The tensor stays valid and untouched until `done`, which is called once, with no lock held;
  /// perhaps before this returns. `made_by`, interned, names the bytes.
  virtual Ticket swap_out(const Held& tensor, Bytes bytes, SwapOutDone done,
                          const char* made_by) = 0;
  /// Takes back a swap-out of which nothing has been written: `done` is never called then. False if
  /// it has begun, or ended.
  virtual bool cancel_out(Ticket ticket) = 0;
};

}  // namespace spillway::tf
