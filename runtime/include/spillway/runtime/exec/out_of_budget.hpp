// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// An op needs more than the budget allows even with everything evicted that can be, or the kernel
/// refuses what the budget would allow.
class OutOfBudget : public std::runtime_error {
 public:
  struct Facts {
    std::string op;  ///< outermost op that asked, or empty
    Bytes need;      ///< bytes of this request
    Bytes have;      ///< bytes of the budget not taken by what cannot leave
    Bytes budget;
    Bytes smallest_budget;  ///< least that would have let this request pass
    std::string why;  ///< what kept eviction from making room (disk full, I/O error); may be empty
    std::string waited;   ///< whom it waited for in vain, and how long; may be empty
    Bytes small;          ///< what storages too small to move hold together
    bool is_all = false;  ///< the op is known and was refused before it began: it needs no more
    bool begun = false;   ///< the op was running
    std::string refused;  ///< by the kernel: what may be short there; empty: the budget is short
    std::string advice;   ///< what to do
    std::vector<std::string> pinned;  ///< largest storages that cannot leave, up to five
  };
  explicit OutOfBudget(Facts facts);
  [[nodiscard]] const Facts& facts() const { return facts_; }

 private:
  Facts facts_;
};

}  // namespace spillway::runtime
