// SPDX-License-Identifier: Apache-2.0
// The engine in a program of several processes that share one budget (memory/shared_budget.hpp).
#include <fmt/format.h>

#include "engine_lock.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

void Engine::begin_sharing(const Settings& settings) {
  if (settings.budget_page.empty() || !shared_.join(settings.budget_page)) {
    if (!shared_.is_member()) shared_.lead(budget_);
  } else {
    warn_once(fmt::format("this process shares the budget of {} with the one that started it",
                          to_string(shared_.total())));
  }
  sharing_ = shared_.is_root() || shared_.is_member();
  follow_shared();
}

void Engine::follow_shared() {
  if (!sharing_) return;
  budget_ = shared_.limit();
  memory_.set_limit(budget_);
  const Bytes claimed = shared_.claimed_by_others();
  if (claimed.count != 0) {
    warn_once(fmt::format("the budget of {} is shared with processes that multiprocessing started",
                          to_string(shared_.total())));
  }
}

// A member takes more while its part is not used up.
bool Engine::claim_room(Bytes needed) {
  if (!sharing_ || !shared_.claim(needed)) return false;
  follow_shared();
  return true;
}

// Others' claims must not stop the root where it would have gone on alone.
bool Engine::take_back() {
  if (!sharing_ || !shared_.is_root() || budget_ >= shared_.total()) return false;
  budget_ = shared_.total();
  memory_.set_limit(budget_);
  return true;
}

std::string Engine::budget_page() {
  const Lock lock(*this);
  return sharing_ && shared_.is_root() ? shared_.path() : std::string();
}

}  // namespace spillway::runtime
