// SPDX-License-Identifier: Apache-2.0
// Copies of tensors outside the framework's memory, made and brought back by threads of its own.
//
//     swap_out(memory) ─> queue ─> TieredStore::store ─> done(copy)      the host, else the disk
//     swap_in(copy)    ─> queue ─> room? ─> TieredStore::load ─> done(memory)
//                           ^        │ no: the next in the queue is tried
//                           └────────┘
//
// A swap-in takes memory when it finds room, and fails when neither a free nor the end of a copy
// has made room for the patience that it has. While it waits it can be cancelled. So can a swap-out
// of which nothing has been written.
//
// One that is made ahead of its need takes only room that nobody else waits for. It has all the
// time, and no tensor leaves for it.
//
// Ownership: a Copy is dropped with its last owner. What `swap_out` is given stays valid and
// untouched until `done`; `done` of a swap-in gets memory of BudgetedMemory and owns it. `done` is
// called once, by threads of ours or of the store, with no lock held. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "budgeted_memory.hpp"
#include "copying.hpp"
#include "delayed_ends.hpp"
#include "link_meter.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/status_page.hpp"
#include "spillway/runtime/store/tiered_store.hpp"

namespace spillway::tf {

/// Bytes in the store.
class StoredCopy final : public Copy {
 public:
  StoredCopy(runtime::TieredStore& store, runtime::StoredId id, Bytes bytes)
      : Copy(bytes), store_(store), id_(id) {}
  ~StoredCopy() override { store_.drop(id_); }

  [[nodiscard]] runtime::StoredId id() const { return id_; }

 private:
  runtime::TieredStore& store_;
  runtime::StoredId id_;
};

/// Null with a reason where nothing could be brought back.
using SwapInDone = std::function<void(std::byte* memory, const std::string& reason)>;

enum class Urgency : std::uint8_t {
  kNeeded,
  kAhead,
};

class SwapStore final : public CopyMaker {
 public:
  /// With `delays` it is they that call `done` where bytes were copied.
  SwapStore(runtime::TieredStoreOptions options, std::unique_ptr<runtime::Transfers> transfers,
            BudgetedMemory& memory, std::unique_ptr<DelayedEnds> delays = nullptr);
  /// Waits for what is in flight. The caller has stopped calling, and no swap-in waits but such as
  /// are made ahead, which are not ended.
  ~SwapStore() override;

  /// The same for memory. `made_by` names the bytes in top_movers().
  Ticket swap_out(const std::byte* memory, Bytes bytes, SwapOutDone done,
                  const char* made_by = nullptr);
  Ticket swap_out(const Held& tensor, Bytes bytes, SwapOutDone done, const char* made_by) override {
    return swap_out(tensor.data(), bytes, std::move(done), made_by);
  }
  bool cancel_out(Ticket ticket) override;

  /// Brings back a copy of this store's. The ticket names a swap-in that waits.
  Ticket swap_in(std::shared_ptr<Copy> copy, std::size_t alignment, SwapInDone done,
                 Urgency urgency = Urgency::kNeeded);
  /// Takes back a swap-in that still waits for room: `done` is never called then. False if it has
  /// room, or ended.
  bool cancel_in(Ticket ticket);

  /// For what lies there without being a copy.
  runtime::TieredStore& tiers() { return store_; }

  [[nodiscard]] runtime::StoreUsage usage() const { return store_.usage(); }
  [[nodiscard]] runtime::StoreStatistics statistics() const { return store_.statistics(); }
  [[nodiscard]] std::vector<runtime::MoveTally::Moved> top_movers() const {
    return store_.top_movers(runtime::kTopMovers);
  }
  [[nodiscard]] std::string transfers() const { return store_.transfers(); }
  /// How fast copies were made and brought back.
  [[nodiscard]] const LinkMeter& out() const { return out_meter_; }
  [[nodiscard]] const LinkMeter& in() const { return in_meter_; }

  /// Before a fork: lets transfers end, and begins none until after_fork(). No lock is held
  /// afterwards, and what ends calls back meanwhile, so this comes before the locks that such a
  /// callback takes. Several threads may fork at once.
  void pause();
  /// After pause(), with the locks that come before the store's. In the child nothing leaves any
  /// more, and what left before cannot be brought back.
  void before_fork();
  void after_fork(bool in_child);

 private:
  struct Request {
    Ticket ticket = 0;
    std::shared_ptr<StoredCopy> copy;
    std::size_t alignment = 0;
    SwapInDone done;
    Urgency urgency = Urgency::kNeeded;
  };

  struct Leaving {
    Ticket ticket = 0;
    const std::byte* memory = nullptr;
    Bytes bytes{};
    SwapOutDone done;
    const char* made_by = nullptr;
  };

  void run_out();
  void run_in();
  void end_work();
  /// Starts what finds room; true if something did.
  bool start_those_with_room();
  [[nodiscard]] bool nothing_to_bring_locked() const { return in_.empty() && ahead_.empty(); }
  void load(const Request& request, std::byte* memory);
  void make_room_for_first();
  void fail_first();
  /// A place in the store, or why there is none.
  std::optional<runtime::StoredId> reserve(const Leaving& leaving, std::string& reason);
  void swap_out_now(const Leaving& leaving);
  /// `end`, which with delays is called by and by.
  runtime::StoreDone held_back(runtime::StoreDone end);

  BudgetedMemory& memory_;
  LinkMeter out_meter_;
  LinkMeter in_meter_;
  runtime::TieredStore store_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::list<Leaving> out_;
  std::unordered_map<Ticket, std::shared_ptr<StoredCopy>>
      writing_;               // what has a place, and is no copy yet
  std::list<Request> in_;     // needed
  std::list<Request> ahead_;  // of their need
  Ticket last_ticket_ = 0;
  bool stopping_ = false;
  std::uint32_t busy_ = 0;  // of the two threads: those that work on what they took
  int paused_ = 0;          // forks that are under way
  bool in_child_ = false;
  std::unique_ptr<DelayedEnds> delays_;  // null: there are none
  std::thread out_thread_;
  std::thread in_thread_;
};

}  // namespace spillway::tf
