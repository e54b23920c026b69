// SPDX-License-Identifier: Apache-2.0
// The bytes that this process may hold on the device.
//
//     granted   |-------------------------------------|   by the settings; `auto` follows the
//     machine reach     |---------------------------|             of it, what other processes leave
//     limit     |-----------------|                       of that, what this one has claimed
//
// `limit` is the number that all others go by: it lives in the device's MemoryBudget, and only this
// class sets it. Where no budget is shared (memory/shared_budget.hpp) all three are equal. Where
// others' claims stop the first process, it takes all that was granted back: then `limit` is above
// `reach`, until the share changes.
//
// On a card, what the process holds there besides (set_unmanaged) is taken off `reach` and `limit`,
// and what it is expected to hold soon off `limit` alone, until an op cannot run otherwise.
//
// Under the engine's lock, except where a function says any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "memory/shared_budget.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/tier_set.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::runtime {

/// A budget that nothing exceeds.
inline constexpr Bytes kNoLimit{std::uint64_t{1} << 62};

/// The settings with the budget that the process shares, if they state none.
Settings with_shared_budget(Settings settings);

class BudgetShare {
 public:
  explicit BudgetShare(TierSet& tiers)
      : tiers_(tiers),
        memory_(tiers.device()),
        covers_unmanaged_(memory_.stream_uses() != nullptr) {}
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;

  /// The engine starts with a budget of its own, which `settings` came to.
  void grant(Bytes budget, const Settings& settings);
  /// That budget is shared: with the process whose page the settings name, else with those that
  /// this one starts.
  void share(const Settings& settings);
  /// The engine stops: no limit any more, and nothing is claimed.
  void withdraw();

  // Any thread.
  [[nodiscard]] Bytes limit() const { return memory_.budget().limit(); }
  [[nodiscard]] Bytes reach() const {
    return saturating_sub({reach_.load(std::memory_order_relaxed)}, unmanaged());
  }
  /// Whether the budget covers what the process holds on the device besides: a card's does.
  [[nodiscard]] bool covers_unmanaged() const { return covers_unmanaged_; }
  [[nodiscard]] Bytes unmanaged() const { return {unmanaged_.load(std::memory_order_relaxed)}; }

  /// The budget as people see it, with what is unmanaged: of a shared one the whole, which the
  /// first process may use when it is alone.
  [[nodiscard]] Bytes stated() const;
  /// Whether the engine runs with a budget that the settings state, or a device.
  [[nodiscard]] bool limited() const { return limited_; }
  /// The setting that the limit comes from.
  [[nodiscard]] const char* setting() const { return setting_; }
  [[nodiscard]] Bytes claimed_by_others() const { return shared_.claimed_by_others(); }
  /// Times that the limit was set. A thread that waits for room looks again then.
  [[nodiscard]] std::uint64_t changes() const { return changes_; }

  /// Adopts what other processes claimed meanwhile, if they did.
  void follow_others() {
    if (sharing_ && shared_.changed()) follow_share();
  }
  /// A step ended: `auto` follows the memory that the machine has left, and a share that of the
  /// processes that are gone.
  void follow_step(TimeNs now);
  /// Claims `needed` more of what is shared. False if this process holds all that it may.
  bool claim(Bytes needed);
  /// The granted bytes hold again, whatever others claim: they must not stop the first process
  /// where it would have gone on alone. Room that is kept for what is expected beside the tier is
  /// given up, as far as `needed`, for good. False if there is nothing to take.
  bool take_back(Bytes needed);
  /// The process holds so many bytes of the device besides those of the tier, and the budget covers
  /// them too: the tier has to do with the rest. `expected`: more will be held soon.
  void set_unmanaged(Bytes bytes, Bytes expected);
  /// Tells the others what this process holds.
  void publish_use();

  /// For SPILLWAY_BUDGET_PAGE of processes that multiprocessing starts; empty where none is shared.
  [[nodiscard]] std::string page() const;

  /// In a forked child: it claims what it holds, and follows no limit.
  void abandon_in_child();
  /// In a forked child: it took memory of its own, or, negative, gave some back. Any thread.
  void hold_in_child(std::int64_t bytes) noexcept { shared_.forked_hold(bytes); }

 private:
  /// `claimed`: with what is unmanaged.
  void set_limit(Bytes claimed);
  void limit_memory();
  void follow_machine(TimeNs now);
  void follow_share();

  TierSet& tiers_;
  DeviceTier& memory_;
  const bool covers_unmanaged_;
  SharedBudget shared_;
  bool sharing_ = false;
  bool said_shared_ = false;
  bool auto_ = false;  // the settings say `auto`
  bool limited_ = false;
  const char* setting_ = "SPILLWAY_BUDGET";
  Bytes granted_{};
  Bytes claimed_{};  // zero: never started
  std::atomic<std::uint64_t> reach_{0};
  std::atomic<std::uint64_t> unmanaged_{0};
  Bytes expected_{};                // room kept for more of it
  Bytes most_expected_ = kNoLimit;  // less what ops took of it
  std::uint64_t changes_ = 0;
  TimeNs look_again_at_ = 0;  // not before then is the machine's memory looked at
};

}  // namespace spillway::runtime
