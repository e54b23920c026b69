// SPDX-License-Identifier: Apache-2.0
// One budget for a process and those that multiprocessing starts for it.
//
//     total   |== root: what is not claimed ==|= member =|==== member ====|
//
// The root makes a page that its members map: spawned ones by the path in SPILLWAY_BUDGET_PAGE,
// forked ones by inheriting it. A member claims what it needs, in steps, up to an equal part; what
// is claimed is no longer the root's, which makes room at its next allocation. Forked members
// cannot evict: they claim what they hold, whatever it is. Claims of processes that are gone are
// dropped by the root at its next step.
//
// Functions other than `forked_*` are called under the engine's lock. The page is changed with
// atomics alone: a process may die at any point.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

class SharedBudget {
 public:
  SharedBudget() = default;
  SharedBudget(const SharedBudget&) = delete;
  SharedBudget& operator=(const SharedBudget&) = delete;

  /// Makes the page, or sets the total of the one made before. No budget is shared where the kernel
  /// refuses one: a member then holds the whole budget of its own.
  void lead(Bytes total);
  /// Maps a root's page. False if the root is gone.
  bool join(const std::string& path);

  [[nodiscard]] bool is_root() const { return page_ != nullptr && !member_; }
  [[nodiscard]] bool is_member() const { return page_ != nullptr && member_; }
  /// For SPILLWAY_BUDGET_PAGE of members; empty unless this is the root.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Bytes total() const;

  /// Whether `limit` may be another than when it was last asked for. One relaxed load.
  [[nodiscard]] bool changed() const {
    return page_ != nullptr && page_->version.load(std::memory_order_relaxed) != version_;
  }
  /// What this process may hold.
  Bytes limit();
  /// Claims `needed` more, at least a step. False if the equal part is claimed already.
  bool claim(Bytes needed);
  /// Root: what it holds, so that members know whether it needs a part.
  void publish(Bytes used) {
    if (is_root()) page_->root_used.store(used.count, std::memory_order_relaxed);
  }
  /// Root: drops the claims of processes that are gone.
  void bury();
  /// Claims of others; zero for a member.
  [[nodiscard]] Bytes claimed_by_others() const;

  /// In a forked process: it is a member from now on, once it holds something to speak of.
  void forked_begin();
  /// It took (or, negative, gave back) memory of its own. Any thread, no lock.
  void forked_hold(std::int64_t bytes) noexcept;

 private:
  static constexpr std::size_t kMembers = 256;
  struct Slot {
    std::atomic<std::int32_t> pid;
    std::atomic<std::uint64_t> claim;
  };
  struct Page {
    std::atomic<std::uint64_t> version;
    std::atomic<std::uint64_t> total;
    std::atomic<std::uint64_t> root_used;
    std::array<Slot, kMembers> slots;
  };

  [[nodiscard]] std::uint64_t equal_part() const;
  bool take_slot();
  void set_claim(std::uint64_t bytes);

  Page* page_ = nullptr;
  Slot* slot_ = nullptr;  ///< a member's
  bool member_ = false;
  std::uint64_t version_ = 0;
  std::string path_;
  std::atomic<std::int64_t> forked_held_{0};
};

}  // namespace spillway::runtime
