// SPDX-License-Identifier: Apache-2.0
// The engine in a program of several processes that share one budget (memory/shared_budget.hpp).
#include <fmt/format.h>

#include "engine_lock.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

// enable() sets no variable by which those it starts could tell the budget.
Settings with_shared_budget(Settings settings) {
  if (settings.budget || settings.budget_page.empty()) return settings;
  const Bytes total = SharedBudget::total_of(settings.budget_page);
  if (total.count != 0) {
    settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = total};
  }
  return settings;
}

void Engine::begin_sharing(const Settings& settings) {
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
  follow_shared();
}

void Engine::follow_shared() {
  if (!sharing_) return;
  set_budget(std::min(shared_.limit(), granted_));
  reach_.store(std::min(shared_.reach(), granted_).count, std::memory_order_relaxed);
  if (said_shared_ || shared_.claimed_by_others().count == 0) return;
  said_shared_ = true;
  warn_once(fmt::format("the budget of {} is shared with processes that multiprocessing started",
                        to_string(shared_.total())));
}

void Engine::set_budget(Bytes budget) {
  ++limits_set_;
  budget_.store(budget.count, std::memory_order_relaxed);
  reach_.store(budget.count, std::memory_order_relaxed);
  memory_.set_limit(budget);
}

// The budget as people see it: of a shared one the whole, which the root may use when it is alone.
Bytes Engine::stated_budget() const {
  return sharing_ && shared_.is_root() ? shared_.total() : budget();
}

// A member takes more while its part, and what it was granted itself, are not used up.
bool Engine::claim_room(Bytes needed) {
  if (!sharing_ || budget() >= granted_ || !shared_.claim(needed)) return false;
  follow_shared();
  return true;
}

// Others' claims must not stop the root where it would have gone on alone.
bool Engine::take_back() {
  if (!sharing_ || !shared_.is_root() || budget() >= granted_) return false;
  const Bytes reach = this->reach();
  set_budget(granted_);
  reach_.store(reach.count, std::memory_order_relaxed);
  return true;
}

std::string Engine::budget_page() {
  const Lock lock(*this);
  return sharing_ && shared_.is_root() ? shared_.path() : std::string();
}

}  // namespace spillway::runtime
