// SPDX-License-Identifier: Apache-2.0
// Tensors that wait for their late users: a swap-out was given them, and not all of its swap-ins
// have had them.
//
//     add ──> here ──leave──> leaving ──copied──> away ──came back, and stays──> here, with a copy
//              ^                 │ no copy could    │ ^                             ^
//              └─────────────────┘ be made, or it   │ └────────── no room ───────┐  │
//                                  was taken back   └──begin_ahead──> coming ────┴──┘
//     take    here, leaving: the tensor itself      away: its copy      coming: later
//
// *Ahead of its need.* A plan says when the bytes of a tensor that is away begin to come back,
// which may be long before its swap-in takes it. Meanwhile it is here with a copy, a victim that
// need not be written: a plan goes by an order of ops that was measured, and in another one the
// memory may be wanted for what comes first. What a swap-in has handed to the framework cannot be
// taken back.
//
// A tensor with several swap-ins waits several times. Each wait is a hole of its own to the table:
// it may stay for the five ops until its next use and leave for the rest of the forward pass. What
// came back and stays keeps its copy, so that it can leave again without being written.
//
// A tensor that is here is a victim where somebody else lacks room and nobody else holds it:
// make_room lets those leave first that came first, since a backward pass uses last what was made
// first. One that another op still reads, or whose memory is a variable's, stays.
//
// The last swap-in of a tensor takes back a swap-out of which nothing has been written: the copy
// would free nothing before the tensor is used. One before the last does so where the tensor stays
// for the hole that follows.
//
// A swap-in behind a gate (twins.hpp) may not run at all. The one after it passes over its hole.
//
// Ownership: a WaitingTensor belongs to the token of its swap-out. It owns the framework's hold on
// the tensor while that is here or leaving, and its copy from when there is one. Thread-safe. Holds
// are let go with no lock held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "copying.hpp"
#include "revocable_wait.hpp"
#include "spillway/base/bytes.hpp"
#include "standstill.hpp"
#include "swap_table.hpp"

namespace spillway::tf {

class WaitingTensors;

class WaitingTensor : public std::enable_shared_from_this<WaitingTensor> {
 public:
  WaitingTensor(WaitingTensors& owner, std::unique_ptr<Held> held, Bytes bytes,
                std::uint64_t first_hole, std::uint32_t holes, const char* made_by,
                std::int64_t step);
  ~WaitingTensor();
  WaitingTensor(const WaitingTensor&) = delete;
  WaitingTensor& operator=(const WaitingTensor&) = delete;

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  /// Null: nobody said.
  [[nodiscard]] const char* made_by() const { return made_by_; }

 private:
  friend class WaitingTensors;
  enum class State : std::uint8_t { kHere, kLeaving, kAway, kComing };

  WaitingTensors& owner_;
  const Bytes bytes_;
  const std::uint64_t end_;    // the number after its last hole
  const char* const made_by_;  // as swap_out() is told
  const std::int64_t step_;
  // The rest is guarded by the owner's lock.
  std::uint64_t hole_;     // it waits in now; `end_`: its last swap-in has come
  std::uint32_t to_come_;  // swap-ins that have not got it yet
  State state_ = State::kHere;
  bool counted_ = false;  // in the table, as in the store in this hole
  bool stays_ = false;    // no copy could be made
  std::unique_ptr<Held> held_;
  std::shared_ptr<Copy> copy_;
  bool passes_ = false;                    // the hole it waits in
  CopyMaker::Ticket ticket_ = 0;           // of a swap-out that may be taken back
  bool wanted_ = false;                    // ahead of its need: what leaves stays, with its copy
  std::shared_ptr<RevocableWait> coming_;  // while coming: for room
  std::vector<std::function<void()>> on_come_;  // while coming: who wants it
  std::list<WaitingTensor*>::iterator place_;
};

/// The result of a swap-in: one of the two, or none of a tensor that is coming.
struct Taken {
  std::unique_ptr<Held> held;
  std::shared_ptr<Copy> copy;
};

/// Which victims leave for those that lack room.
enum class Smallest : std::uint8_t {
  kOfTable,  ///< no small ones (swap_table.hpp)
  kAny,      ///< these too, where there is no larger one
};

class WaitingTensors {
 public:
  /// `on_stays`: a tensor that was to leave stays, and why; called with no lock held.
  WaitingTensors(CopyMaker& copies, SwapTable& table, Standstill& standstill,
                 std::function<void(const std::string& reason)> on_stays)
      : copies_(copies), table_(table), standstill_(standstill), on_stays_(std::move(on_stays)) {}

  /// `first_hole` is the table's number of its first hole; there is one before each swap-in.
  /// `made_by`: as CopyMaker::swap_out() has it. `step`: as SwapTable::copies() has it.
  std::shared_ptr<WaitingTensor> add(std::unique_ptr<Held> held, Bytes bytes,
                                     std::uint64_t first_hole, std::uint32_t holes,
                                     const char* made_by = nullptr, std::int64_t step = 0);
  /// Begins to copy what is here. `done`, if given, is called when the copy has ended, well or not.
  void leave(const std::shared_ptr<WaitingTensor>& tensor, std::function<void()> done = {});
  /// The hole it waits in is this one, be it that no swap-in came for those before.
  void pass_over(const std::shared_ptr<WaitingTensor>& tensor, std::uint64_t hole);
  /// The copy of a tensor that waits in the hole, or one before, and is away: the caller begins to
  /// bring it back, which can be revoked by `wait` while it waits for room, and then says that it
  /// came_ahead(). Null where there is nothing to bring: what is here stays, as does what is
  /// leaving, unless room is wanted.
  std::shared_ptr<Copy> begin_ahead(const std::shared_ptr<WaitingTensor>& tensor,
                                    std::uint64_t hole, std::shared_ptr<RevocableWait> wait);
  /// `held` is null where it could not be brought, or that was revoked.
  void came_ahead(const std::shared_ptr<WaitingTensor>& tensor, std::unique_ptr<Held> held);
  /// A swap-in wants it; the next hole begins, and the table decides it. Where it is coming neither
  /// happens: `again` is called, perhaps before this returns, once it is here or known not to come.
  Taken take(const std::shared_ptr<WaitingTensor>& tensor, std::function<void()> again = {});
  /// Bytes of it came back for a swap-in: a hold on them, for the case that it stays now.
  void came_back(const std::shared_ptr<WaitingTensor>& tensor, std::unique_ptr<Held> held);
  /// No swap-in will take it any more.
  void abandon(const std::shared_ptr<WaitingTensor>& tensor);

  /// Lets victims of so many bytes in all leave, or as many as there are. Returns how many bytes.
  Bytes make_room(Bytes bytes, Smallest smallest = Smallest::kAny);
  /// Bytes of those that are here or leaving, each memory once.
  [[nodiscard]] Bytes held() const;

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  friend class WaitingTensor;
  using State = WaitingTensor::State;

  struct Victim {
    std::shared_ptr<WaitingTensor> tensor;
    std::uint64_t hole = 0;
    bool write = false;
    std::unique_ptr<Held> gone = {};
  };
  using Victims = std::vector<Victim>;

  Bytes find_victims_locked(Bytes bytes, Bytes at_least, Victims& victims);
  void start_copy(const std::shared_ptr<WaitingTensor>& tensor, std::function<void()> done);
  void end_copy(WaitingTensor& tensor, std::shared_ptr<Copy> copy, const std::string& reason);
  void take_back(WaitingTensor& tensor, CopyMaker::Ticket ticket);
  /// A tensor that is here lets go of its memory: at once where it has a copy. True if it has to be
  /// written.
  bool begin_leaving_locked(WaitingTensor& tensor, std::unique_ptr<Held>& gone);
  void go_away_locked(WaitingTensor& tensor, std::unique_ptr<Held>& gone);
  /// Tells the table whether it is in the store.
  void count_locked(WaitingTensor& tensor, bool in_store);

  CopyMaker& copies_;
  SwapTable& table_;
  Standstill& standstill_;
  const std::function<void(const std::string&)> on_stays_;
  mutable std::mutex mutex_;
  std::list<WaitingTensor*> tensors_;  // in the order in which they came
};

}  // namespace spillway::tf
