// SPDX-License-Identifier: Apache-2.0
// Memory of those variables of a program (weights, the optimizer's state) that are not to fill the
// budget.
//
//     make ──> mapped, not counted ──use, begin_op──> counted in the budget
//                       ^                                      │
//                       └────────────── make_room ─────────────┘
//
// A variable's memory is a mapping of a place in the store, at one address for its life. Its pages
// come with any access, so that every op of the framework may read and write it in place (sparse
// updates, scatters, checkpoints), whether we know of the op or not; to put them aside is safe at
// any time, also beside an op that reads them. What is counted is what somebody said to use, until
// somebody else lacks room: then the one goes first whose next use is furthest, as former steps
// tell; before all those, the ones of which nothing is foretold, in the order of their last use;
// and what an op under way works on only where else nobody would get room. Pages that such an op
// brought without their being counted go when it ends: a part of a variable that an op chooses
// itself, or all of what had to leave under it.
//
// In host memory, where that has a budget, nothing is put aside and nothing counts.
//
// Up to a share of the budget variables stay where the framework puts them, which costs nothing. If
// more come, all belong in the store, those that were left in memory too.
//
// Thread-safe. No lock is held while bytes move.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "budgeted_memory.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/store/tiered_store.hpp"
#include "use_forecast.hpp"

namespace spillway::tf {

class Variables;

class VariableMemory : public std::enable_shared_from_this<VariableMemory> {
 public:
  VariableMemory(Variables& owner, runtime::StoredId id, std::byte* data, Bytes bytes, bool counts);
  ~VariableMemory();
  VariableMemory(const VariableMemory&) = delete;
  VariableMemory& operator=(const VariableMemory&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  friend class Variables;
  Variables& owner_;
  const runtime::StoredId id_;
  std::byte* const data_;
  const Bytes bytes_;
  const bool counts_;  // in the budget, while it is used: it lies on the disk, not in host memory
  // Guarded by the owner's lock.
  bool counted_ = false;
  bool comes_ = false;      // somebody is getting room for it
  bool uncounted_ = false;  // though an op under way works on all of it
  bool stays_ = false;      // it could not be put aside
  bool dies_ = false;       // its last owner is letting go of it
  std::uint32_t ops_ = 0;   // under way that work on it
  UseForecast::Uses uses_;
  std::uint64_t left_in_ = 0;  // the last step in which it was put aside
  std::list<VariableMemory*>::iterator place_;
};

struct VariablesOptions {
  Bytes in_memory{};          ///< up to so much all may lie in the framework's memory
  Bytes smallest{};           ///< variables below it do in any case
  bool always_leave = false;  ///< fuzz: put aside before each use
};

struct VariablesUsage {
  std::uint64_t count = 0;  ///< mapped ones
  Bytes bytes{};
  Bytes peak_bytes{};
  Bytes counted{};  ///< of those, in the budget now; twice what is used again while it leaves
  Bytes peak_uncounted{};     ///< the most that ops worked on at once by Part::kAllUncounted
  std::uint64_t refused = 0;  ///< how often the store did not take one, which then stays in memory
  std::string refusal{};      ///< the last reason
};

/// How much of a variable an op works on.
enum class Part : std::uint8_t {
  kAll,
  kSome,          ///< a part that nobody knows
  kAllUncounted,  ///< of one of so many that they cannot all count
};

class Variables {
 public:
  /// `on_stays`: a variable that was to leave stays, and why; called with no lock held.
  Variables(VariablesOptions options, BudgetedMemory& memory, runtime::TieredStore& store,
            std::function<void(const std::string& reason)> on_stays)
      : options_(options), memory_(memory), store_(store), on_stays_(std::move(on_stays)) {}

  /// A variable of so many bytes gets its first value: whether it is to be mapped.
  bool maps_new(Bytes bytes);
  /// Whether maps_new() would find that there are too many to lie in memory, as it did not before.
  [[nodiscard]] bool would_be_too_many(Bytes bytes) const;
  /// One that maps_new() left in memory is no more.
  void died_in_memory(Bytes bytes);
  /// Whether one of so many bytes that lies in memory is to be mapped once there are too many.
  [[nodiscard]] bool may_map(Bytes bytes) const {
    return bytes.count != 0 && bytes >= options_.smallest;
  }
  /// Null if the store has no room, which `on_stays` hears of. `made_by`, interned, names it in
  /// the store's top_movers().
  std::shared_ptr<VariableMemory> make(Bytes bytes, const char* made_by = nullptr);
  /// Somebody is about to read or write all of it. Waits for room, or for whoever is getting it
  /// for the same one. Empty, or why not: it does not fit the budget, or cannot be read.
  std::string use(VariableMemory& variable, runtime::Access access = runtime::Access::kRead);
  /// Gives it other bytes, where it is counted or there is room, else aside, part by part: what
  /// makes a value needs that much memory, and the variable none beside it. Empty, or why not.
  std::string write(VariableMemory& variable, const std::byte* from);

  /// An op begins that works on it. By Part::kAll it counts as by use(). Empty, or why the op may
  /// not run; end_op follows anyway.
  std::string begin_op(VariableMemory& variable, Part part,
                       runtime::Access access = runtime::Access::kRead);
  void end_op(VariableMemory& variable);

  /// Puts aside those with the furthest next use, of so many bytes in all, or as many as there are.
  /// Returns how many.
  Bytes make_room(Bytes bytes, Victims victims);

  /// A step of the graph has made its updates. From its second on, next uses are
  /// foretold.
  void end_step(std::uint64_t graph);

  [[nodiscard]] VariablesUsage usage() const;
  /// Of mapped ones that count in the budget when they are used, whether they do now or not.
  [[nodiscard]] Bytes wanted() const;
  /// Whether there is no mapped one. Takes no lock.
  [[nodiscard]] bool none() const { return mapped_.load(std::memory_order_relaxed) == 0; }

  void before_fork() { mutex_.lock(); }
  /// In the child nobody is getting room for a variable any more.
  void after_fork(bool in_child);

 private:
  friend class VariableMemory;
  /// For somebody else to whom it comes, with the lock free meanwhile.
  void wait_until_came(const VariableMemory& variable, std::unique_lock<std::mutex>& lock);
  /// Charges it and has its bytes come. Empty, or why not.
  std::string bring(VariableMemory& variable, runtime::Access access);
  /// The victim of those that are counted: one whose next use is not foretold, the one used longest
  /// ago first, else the one with the furthest. Null if there is none.
  [[nodiscard]] VariableMemory* furthest_locked(Victims victims) const;
  /// The same, which is counted no more, while its charge is still made.
  std::shared_ptr<VariableMemory> take_victim(Victims victims);
  /// With its charge, if that is made. Returns what is charged no more.
  Bytes put_aside(VariableMemory& variable, bool charged);
  /// It is the one that was used last. True if it counts already, or need not.
  bool note_use(VariableMemory& variable);
  /// The charge for it was made.
  void count(VariableMemory& variable);
  void begin_uncounted_locked(VariableMemory& variable);
  void end_uncounted_locked(VariableMemory& variable);
  /// Its value could not be written, and stays in memory where there is room.
  void keep(VariableMemory& variable, const std::string& reason);
  void note_refusal(const std::string& reason);

  const VariablesOptions options_;
  BudgetedMemory& memory_;
  runtime::TieredStore& store_;
  const std::function<void(const std::string&)> on_stays_;
  mutable std::mutex mutex_;
  std::condition_variable came_;          // a variable, or it could not
  std::list<VariableMemory*> variables_;  // the one used longest ago first
  std::atomic<std::size_t> mapped_{0};    // of those
  Bytes in_memory_{};
  bool too_many_ = false;  // for the share in memory
  Bytes bytes_{};
  Bytes wanted_{};
  Bytes peak_bytes_{};
  Bytes counted_{};
  Bytes uncounted_{};
  Bytes peak_uncounted_{};
  UseForecast forecast_;
  std::uint64_t step_ = 2;  // what left in this one or the last may leave again
  std::uint64_t refused_ = 0;
  std::string refusal_;
};

}  // namespace spillway::tf
