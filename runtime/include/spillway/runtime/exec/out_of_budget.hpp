// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/memory/device_tier.hpp"

namespace spillway::runtime {

/// An op needs more than the budget allows even with everything evicted that can be, or the system
/// refuses what the budget would allow. The text has a line for each fact, and ends with a list of
/// what may be done.
class OutOfBudget : public std::runtime_error {
 public:
  struct Facts {
    std::string op;  ///< outermost op that asked, or empty
    Bytes need;      ///< bytes of this request, or of the whole op where `is_whole`
    Bytes have;      ///< bytes of the budget not taken by what cannot leave
    Bytes budget;
    Bytes unmanaged;        ///< of it, taken by what is not Spillway's to move
    Bytes smallest_budget;  ///< least that would have let this request pass
    std::string why;  ///< what kept eviction from making room (disk full, I/O error); may be empty
    std::string waited;     ///< whom it waited for in vain, and how long; may be empty
    Bytes small;            ///< what storages too small to move hold together
    bool is_all = false;    ///< the op is known and was refused before it began: it needs no more
    bool is_whole = false;  ///< `need` is of all inputs of the op together
    bool begun = false;     ///< the op was running
    std::optional<MemoryRefusal> refusal{};  ///< by the system; empty: the budget is short
    std::string limit = "SPILLWAY_BUDGET";   ///< the setting that is short
    std::string idle_mode;                   ///< a mode that moves nothing, if such a one holds
    std::string also_known_as;               ///< the framework's own words for it; may be empty
    std::vector<std::string> remedies;       ///< what helps with this op, a sentence each
    std::vector<std::string> pinned;         ///< largest storages that cannot leave, up to five
  };
  explicit OutOfBudget(Facts facts);
  [[nodiscard]] const Facts& facts() const { return facts_; }

 private:
  Facts facts_;
};

}  // namespace spillway::runtime
