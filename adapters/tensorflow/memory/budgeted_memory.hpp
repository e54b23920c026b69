// SPDX-License-Identifier: Apache-2.0
// The memory of the framework's tensors: the engine's arena within a budget, for many threads.
//
// An allocation that does not fit waits while room may still come: copies to the store are under
// way, or memory was freed a moment ago. Where what is under way is not enough it asks for victims.
// It fails when nothing has made room for the patience that it has. Nobody moves what is allocated;
// what leaves is copied by swap_store.hpp and freed by the framework.
//
// Ops that compute faster than copies leave are held back: while more than an eighth of the budget
// is on its way out, large allocations wait. Else memory would fill with what is to leave, and its
// peak be that of a step in which nothing leaves.
//
// Thread-safe. Unless somebody waits `free` takes no lock but the observer's, if there is one, so
// it may be called with any other held.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory_observer.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/memory/device_memory.hpp"

namespace spillway::tf {

/// What may leave for those that lack room.
enum class Victims : std::uint8_t {
  kIdle,   ///< what no op under way works on
  kInUse,  ///< that too: nothing else has made room for a while
};

struct MemoryUsage {
  Bytes budget{};
  Bytes held{};  ///< pages, free ones and rounding included
  Bytes peak_held{};
  Bytes live{};       ///< what is allocated, in whole pages
  Bytes peak_live{};  ///< since clear_peak()
  std::uint64_t allocations = 0;
  std::uint64_t waits = 0;     ///< allocations that waited
  std::uint64_t failures = 0;  ///< and those that failed, swap-ins too
  Bytes last_short{};          ///< what the last of those was short
  std::int64_t waited_ns = 0;  ///< over all threads
};

class BudgetedMemory {
 public:
  BudgetedMemory(Bytes budget, runtime::Poison poison);

  /// `evict` begins to copy out tensors of so many bytes, or as many as there are: their memory is
  /// freed later, and expect_room says so. Called by whoever lacks room, with no lock held. Before
  /// the first allocation.
  void set_victims(std::function<void(Bytes, Victims)> evict) { evict_ = std::move(evict); }
  /// Before the first allocation; not owned.
  void set_observer(MemoryObserver& observer) { observer_ = &observer; }
  /// A sentence on what holds the memory, for reason(). Called with no lock held. Before the first
  /// allocation.
  void set_holders(std::function<std::string()> holders) { holders_ = std::move(holders); }

  /// Aligned to `alignment`, a power of two. Null if it does not fit: last_failure() says why.
  std::byte* allocate(Bytes bytes, std::size_t alignment);
  /// The same, without waiting.
  std::byte* try_allocate(Bytes bytes, std::size_t alignment);
  /// The same, for the last time: null is a failure.
  std::byte* allocate_now(Bytes bytes, std::size_t alignment);
  /// As try_allocate(), and only where no allocation or charge wants room that it has not got.
  std::byte* try_allocate_spare(Bytes bytes, std::size_t alignment);
  /// Beyond the budget where it has to be, for a caller to whom null would be a fault. Null only
  /// where the kernel refuses.
  std::byte* allocate_beyond(Bytes bytes, std::size_t alignment);
  void free(std::byte* pointer) noexcept;

  /// Counts bytes of the budget that lie elsewhere, such as mapped pages of a variable: waits for
  /// room as allocate() does. False if they do not fit.
  [[nodiscard]] bool charge(Bytes bytes);
  /// The same, without waiting.
  [[nodiscard]] bool try_charge(Bytes bytes);
  void uncharge(Bytes bytes);
  /// Whether memory here was allocated. Takes no lock.
  [[nodiscard]] bool owns(const std::byte* pointer) const {
    return memory_.find(pointer) != nullptr;
  }

  /// The calling thread waits for room that it, or somebody for it, has not got: so the time is in
  /// the figures. Returns when it began, which end_waiting() is given. No lock held.
  [[nodiscard]] TimeNs begin_waiting();
  void end_waiting(TimeNs begun);

  /// A copy begins after whose end the framework frees so many bytes, or, of 0 bytes, others may
  /// leave; and has ended.
  void expect_room(Bytes bytes);
  void room_came(Bytes bytes);
  /// So many bytes did not fit: asks for victims where what is on its way is not enough for them.
  void make_room(Bytes bytes, Victims victims = Victims::kIdle);
  /// Whoever waits for room looks again.
  void wake();

  /// Waits until something is freed after `seen`, a former result, or for `patience`. Returns how
  /// often room came so far.
  std::uint64_t wait_for_room(std::uint64_t seen, std::chrono::milliseconds patience);
  /// Whether copies are under way that will make room.
  [[nodiscard]] bool room_expected() const { return copies_.load() != 0; }
  [[nodiscard]] Bytes leaving() const { return {leaving_.load()}; }

  /// need / have / short of the calling thread's last failure.
  static std::string last_failure();
  /// The text for a person of the calling thread's last failure: these, what helps, and what holds
  /// the memory. Takes locks.
  [[nodiscard]] std::string reason() const;

  [[nodiscard]] Bytes limit() const { return limit_; }
  [[nodiscard]] MemoryUsage usage() const;
  void clear_peak();
  /// The peak of live bytes since the last call, whatever clear_peak() does.
  Bytes take_peak();

  void before_fork();
  /// In the child no copy is under way any more.
  void after_fork(bool in_child);

 private:
  struct Tried {
    std::byte* pointer = nullptr;
    Bytes short_by{};  ///< else: for whole pages; zero: the kernel refused
  };
  Tried try_locked(Bytes bytes, std::size_t alignment, runtime::Overbooking overbooking);
  void note_peaks_locked();
  /// Waits until little enough is on its way out. Whether it had to.
  [[nodiscard]] bool hold_back();
  [[nodiscard]] std::optional<Bytes> charge_locked(Bytes bytes);
  /// Tries until it works: true; the kernel refuses, or nothing has made room for the patience.
  /// `attempt`, called with the lock held, returns what it is short of; nothing: it worked.
  template <typename Attempt>
  bool wait_for(Bytes bytes, std::uint64_t seen, const Attempt& attempt);
  /// The same, before it waits at all, and with its end in the figures. Whether it worked.
  /// `has_waited`: for the same bytes, and so counts no second time.
  template <typename Attempt>
  bool obtain(Bytes bytes, bool has_waited, const Attempt& attempt);
  /// It is the calling thread's last failure from now on.
  void fail_locked(Bytes bytes, Bytes short_by);
  [[nodiscard]] Bytes live_locked() const { return memory_.live() + charged_; }

  const Bytes limit_;
  mutable std::mutex mutex_;
  std::condition_variable room_;
  mutable runtime::DeviceMemory memory_;  // what was freed is taken up when somebody looks
  mutable std::vector<runtime::DeviceBlock*> none_;
  Bytes charged_{};
  Bytes peak_held_{};
  Bytes peak_live_{};
  Bytes peak_since_taken_{};
  std::uint64_t allocations_ = 0;
  std::uint64_t waits_ = 0;
  std::uint64_t failures_ = 0;
  Bytes last_short_{};
  std::atomic<std::int64_t> waited_ns_{0};
  std::atomic<std::uint64_t> frees_{0};
  std::atomic<std::uint32_t> waiting_{0};  // threads that a free has to wake
  std::atomic<std::uint32_t> wanting_{0};  // allocations and charges that wait, or look for victims
  std::atomic<std::uint32_t> copies_{0};
  std::atomic<std::uint64_t> leaving_{0};  // bytes of those
  std::function<void(Bytes, Victims)> evict_;
  std::function<std::string()> holders_;
  MemoryObserver* observer_ = nullptr;
};

}  // namespace spillway::tf
