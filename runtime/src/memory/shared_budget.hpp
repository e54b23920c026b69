// SPDX-License-Identifier: Apache-2.0
// One budget for a process and those that multiprocessing starts for it.
//
//     total   |== root: what is not claimed ==|= spawned =|==== spawned ====|forked|
//
// The root makes a page that its members map: spawned ones by the path in SPILLWAY_BUDGET_PAGE,
// forked ones by inheriting it. A spawned member claims what it needs, in steps, up to an equal
// part; what is claimed is no longer the root's, which makes room at its next allocation. Forked
// members cannot evict: they claim what they hold, whatever it is, and the others share the rest.
// Claims of processes that are gone are dropped by whoever looks: the root at its steps, any member
// that joins or that its part does not suffice.
//
// Functions other than `forked_*` are called under the engine's lock. The page is changed with
// atomics alone: a process may die at any point.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/shared_page.hpp"

namespace spillway::runtime {

class SharedBudget {
 public:
  /// Processes that can share one budget, besides the root.
  static constexpr std::size_t kMembers = 256;

  SharedBudget() = default;
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  /// Makes the page, or sets the total of the one made before. No budget is shared where the kernel
  /// refuses one: a member then holds the whole budget of its own.
  void lead(Bytes total);
  /// Maps a root's page. False if the root is gone, or has kMembers already.
  bool join(const std::string& path);
  /// The bytes that the page at `path` shares; zero if the root is gone.
  static Bytes total_of(const std::string& path);

  [[nodiscard]] bool is_root() const { return page_ != nullptr && !member_; }
  [[nodiscard]] bool is_member() const { return page_ != nullptr && member_; }
  /// For SPILLWAY_BUDGET_PAGE of members; empty unless this is the root.
  [[nodiscard]] std::string path() const { return is_root() ? shared_.path() : std::string(); }
  [[nodiscard]] Bytes total() const;

  /// Whether `limit` may be another than when it was last asked for. One relaxed load.
  [[nodiscard]] bool changed() const {
    return page_ != nullptr && page_->changes.load(std::memory_order_relaxed) != seen_;
  }
  /// The bytes that this process may hold.
  Bytes limit();
  /// The bytes that it could hold after claiming all it can.
  [[nodiscard]] Bytes reach() const;
  /// Claims `needed` more, at least a step. False if the equal part is claimed already.
  bool claim(Bytes needed);
  /// Member: claims nothing any more.
  void release();
  /// Root: what it holds, so that members know whether it needs a part.
  void publish(Bytes used) {
    if (is_root()) page_->root_used.store(used.count, std::memory_order_relaxed);
  }
  /// Drops the claims of processes that are gone.
  void drop_claims_of_dead();
  /// The same, but not again within a fifth of a second: it opens a file for each member.
  void drop_claims_of_dead_if_due();
  /// Claims of others; zero for a member.
  [[nodiscard]] Bytes claimed_by_others() const;

  /// In a forked process: it is a member from now on, once it holds something to speak of.
  void forked_begin();
  /// It took (or, negative, gave back) memory of its own. Any thread, no lock.
  void forked_hold(std::int64_t bytes) noexcept;

 private:
  enum class Kind : std::uint32_t { kSpawned, kForked };
  struct Slot {
    std::atomic<std::int32_t> pid;  // 0: free, negative: being taken or cleared
    std::atomic<Kind> kind;
    std::atomic<std::uint64_t> claim;
  };
  struct Page {
    std::atomic<std::uint64_t> changes;
    std::atomic<std::uint64_t> total;
    std::atomic<std::uint64_t> root_used;
    std::array<Slot, kMembers> slots;
  };

  [[nodiscard]] std::uint64_t equal_part() const;
  Slot* take_slot(Kind kind);
  void clear(Slot& slot);

  SharedPage shared_;
  Page* page_ = nullptr;              // in it
  std::atomic<Slot*> slot_{nullptr};  // a member's
  bool member_ = false;
  std::uint64_t seen_ = 0;
  std::chrono::steady_clock::time_point looked_for_dead_;
  std::atomic<std::int64_t> forked_held_{0};
};

}  // namespace spillway::runtime
