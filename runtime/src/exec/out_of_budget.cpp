// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/out_of_budget.hpp"

#include <fmt/format.h>

#include <utility>

namespace spillway::runtime {

OutOfBudget::OutOfBudget(Facts facts)
    : std::runtime_error([&] {
        if (!facts.refused.empty()) {
          return fmt::format("Spillway: the kernel refuses memory{}: need {}. {}",
                             facts.op.empty() ? "" : " in " + facts.op, to_string(facts.need),
                             facts.refused);
        }
        std::string text = fmt::format(
            "Spillway: out of memory under the budget{}: need {}, have {}, short {} (budget {}). "
            "The smallest budget that would have let this pass is {}{}.{}",
            facts.op.empty() ? "" : " in " + facts.op, to_string(facts.need), to_string(facts.have),
            to_string(saturating_sub(facts.need, facts.have)), to_string(facts.budget),
            facts.is_all ? "" : "at least ", to_string(facts.smallest_budget),
            facts.begun ? " The op was running: the step cannot be taken up where it stopped."
                        : "");
        if (!facts.why.empty()) {
          text += " Eviction was held up: " + facts.why;
          if (!text.ends_with('.')) text += '.';
        }
        if (!facts.waited.empty()) text += " " + facts.waited;
        if (!facts.pinned.empty()) text += " Largest storages that could not leave:";
        for (const std::string& line : facts.pinned) text += "\n  " + line;
        if (facts.small >= saturating_sub(facts.need, facts.have)) {
          text += fmt::format(
              "\nTensors too small to move hold {} together: a lower SPILLWAY_MIN_SIZE lets them.",
              to_string(facts.small));
        }
        return text + "\n" + facts.advice;
      }()),
      facts_(std::move(facts)) {}

}  // namespace spillway::runtime
