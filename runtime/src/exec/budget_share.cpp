// SPDX-License-Identifier: Apache-2.0
#include "budget_share.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/base/error.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

namespace {

// Reading what the machine has takes a tenth of a millisecond, which steps may be as short as.
constexpr TimeNs kFollowEvery = 100'000'000;

}  // namespace

// enable() sets no variable by which those it starts could tell the budget.
Settings with_shared_budget(Settings settings) {
  if (settings.budget || settings.budget_page.empty()) return settings;
  const Bytes total = SharedBudget::total_of(settings.budget_page);
  if (total.count != 0) {
    settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = total};
  }
  return settings;
}

void BudgetShare::grant(Bytes budget, const Settings& settings) {
  most_expected_ = kNoLimit;
  sharing_ = false;
  auto_ = settings.budget && settings.budget->kind == BudgetSpec::Kind::kAuto;
  limited_ = settings.budget.has_value() || settings.emulate_device.has_value();
  setting_ = settings.emulate_device ? "SPILLWAY_EMULATE_DEVICE" : "SPILLWAY_BUDGET";
  granted_ = budget;
  set_limit(budget);
}

void BudgetShare::share(const Settings& settings) {
  if (settings.budget_page.empty()) {
    shared_.lead(granted_);
  } else if (shared_.join(settings.budget_page)) {
    warn_once(fmt::format("this process shares the budget of {} with the one that started it",
                          to_string(shared_.total())));
  } else {
    warn_once(fmt::format(
        "this process has a budget of {} of its own: the one that started it is gone, or shares "
        "its budget with {} already",
        to_string(granted_), SharedBudget::kMembers));
    shared_.lead(granted_);
  }
  sharing_ = shared_.is_root() || shared_.is_member();
  if (sharing_) follow_share();
}

void BudgetShare::withdraw() {
  granted_ = kNoLimit;
  set_limit(kNoLimit);
  shared_.release();
  sharing_ = false;
  auto_ = false;
  limited_ = false;
}

Bytes BudgetShare::stated() const {
  return sharing_ && shared_.is_root() ? shared_.total() : claimed_;
}

void BudgetShare::set_limit(Bytes claimed) {
  ++changes_;
  claimed_ = claimed;
  reach_.store(claimed.count, std::memory_order_relaxed);
  limit_memory();
}

void BudgetShare::limit_memory() {
  memory_.set_limit(saturating_sub(claimed_, unmanaged() + expected_));
}

void BudgetShare::set_unmanaged(Bytes bytes, Bytes expected) {
  expected = std::min(expected, most_expected_);
  if (bytes == unmanaged() && expected == expected_) return;
  ++changes_;
  unmanaged_.store(bytes.count, std::memory_order_relaxed);
  expected_ = expected;
  if (claimed_.count != 0) limit_memory();
}

// The memory of other processes and this one's unmanaged memory change.
void BudgetShare::follow_machine(TimeNs now) {
  if (!auto_ || now < look_again_at_) return;
  look_again_at_ = now + kFollowEvery;
  const MachineMemory machine = tiers_.measure(memory_.budget().used() + unmanaged());
  try {
    granted_ = resolve_budget({.kind = BudgetSpec::Kind::kAuto}, machine, "budget");
    set_limit(granted_);
    if (sharing_) shared_.lead(granted_);
  } catch (const UserError&) {
    // Nothing would be left for tensors: the limit stays what it was.
  }
}

void BudgetShare::follow_share() {
  set_limit(std::min(shared_.limit(), granted_));
  reach_.store(std::min(shared_.reach(), granted_).count, std::memory_order_relaxed);
  if (said_shared_ || shared_.claimed_by_others().count == 0) return;
  said_shared_ = true;
  warn_once(fmt::format("the budget of {} is shared with processes that multiprocessing started",
                        to_string(shared_.total())));
}

void BudgetShare::follow_step(TimeNs now) {
  follow_machine(now);
  if (!sharing_) return;
  shared_.drop_claims_of_dead_if_due();
  follow_share();
}

// A member takes more while its part, and what it was granted itself, are not used up.
bool BudgetShare::claim(Bytes needed) {
  if (!sharing_ || claimed_ >= granted_ || !shared_.claim(needed)) return false;
  follow_share();
  return true;
}

bool BudgetShare::take_back(Bytes needed) {
  if (expected_.count != 0) {
    ++changes_;
    most_expected_ = saturating_sub(expected_, needed);
    expected_ = most_expected_;
    limit_memory();
    return true;
  }
  if (!sharing_ || !shared_.is_root() || claimed_ >= granted_) return false;
  const std::uint64_t reach = reach_.load(std::memory_order_relaxed);
  set_limit(granted_);
  reach_.store(reach, std::memory_order_relaxed);
  return true;
}

void BudgetShare::publish_use() {
  if (sharing_) shared_.publish(memory_.budget().used() + unmanaged());
}

std::string BudgetShare::page() const {
  return sharing_ && shared_.is_root() ? shared_.path() : std::string();
}

void BudgetShare::abandon_in_child() {
  sharing_ = false;
  shared_.forked_begin();
}

}  // namespace spillway::runtime
