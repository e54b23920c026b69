// SPDX-License-Identifier: Apache-2.0
// The errors of ops that do not fit: the facts that OutOfBudget puts into words. Each is counted,
// and shown on the status page. Under the engine's lock, except `in_words`.
#pragma once

#include <string>

#include "budget_share.hpp"
#include "room_request.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/out_of_budget.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "status_publisher.hpp"

namespace spillway::runtime {

class Shortages {
 public:
  Shortages(Framework& framework, const DeviceTier& memory, const Mover& mover,
            const BudgetShare& budget, const MoveRules& rules, StatusPublisher& status)
      : framework_(framework),
        memory_(memory),
        mover_(mover),
        budget_(budget),
        rules_(rules),
        status_(status) {}

  /// The calling thread's op needs `need`, and the budget is short by `short_by`.
  OutOfBudget::Facts shortage(Bytes need, Bytes short_by);
  /// The same for a request, after what it waited for in vain.
  OutOfBudget::Facts shortage(const RoomRequest& request, Bytes short_by);
  /// The same for memory that a running op asks for: running statistics and the random state may
  /// already be written.
  OutOfBudget::Facts shortage_in_op(const RoomRequest& request, Bytes short_by);
  /// The system refuses memory. The budget is not what was short, so nothing is said of it.
  OutOfBudget::Facts refusal(Bytes need);

  /// The same facts with what the framework has to say of them. Without the lock.
  [[nodiscard]] OutOfBudget::Facts in_words(OutOfBudget::Facts facts) const;

 private:
  void name_what_stays(OutOfBudget::Facts& facts) const;

  Framework& framework_;
  const DeviceTier& memory_;
  const Mover& mover_;
  const BudgetShare& budget_;
  const MoveRules& rules_;
  StatusPublisher& status_;
};

/// Returns the sentence that a thread's error has on the addresses it was given since its last op.
std::string said_of_addresses(const ThreadFrames& frames);

}  // namespace spillway::runtime
