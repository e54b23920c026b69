// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/out_of_budget.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway::runtime {

namespace {

std::string indented(const std::string& sentence) { return "\n  " + sentence; }

// An item of the list, in lines of a terminal's width.
std::string listed(const std::string& remedy) {
  constexpr std::size_t kWidth = 80;
  std::string line = "\n  -";
  std::string text;
  for (std::size_t begin = 0; begin < remedy.size();) {
    const std::size_t end = std::min(remedy.find(' ', begin), remedy.size());
    const std::string word = remedy.substr(begin, end - begin);
    if (line.size() + word.size() > kWidth) {  // the newline stands for the space
      text += std::exchange(line, "\n   ");
    }
    line += " " + word;
    begin = end + 1;
  }
  return text + line;
}

std::string ended_with_point(std::string sentence) {
  if (!sentence.ends_with('.')) sentence += '.';
  return sentence;
}

std::string shortage_lines(const OutOfBudget::Facts& facts) {
  std::string text = fmt::format("Spillway: out of memory under the budget{}:",
                                 facts.op.empty() ? "" : " in " + facts.op);
  text += indented(fmt::format("need {}{}, have {}, short {} (budget {}).", to_string(facts.need),
                               facts.is_whole ? " in all" : "", to_string(facts.have),
                               to_string(saturating_sub(facts.need, facts.have)),
                               to_string(facts.budget)));
  if (facts.unmanaged.count != 0) {
    text += indented(fmt::format("Of it {} are the card's context, libraries and small tensors.",
                                 to_string(facts.unmanaged)));
  }
  text += indented(fmt::format("The smallest budget that would have let this pass is {}{}.",
                               facts.is_all ? "" : "at least ", to_string(facts.smallest_budget)));
  if (facts.begun) {
    text += indented("The op was running: the step cannot be taken up where it stopped.");
  }
  return text;
}

std::string refusal_lines(const OutOfBudget::Facts& facts) {
  return fmt::format("Spillway: out of memory, since {} refuses memory{}: need {}.{}",
                     facts.refusal->by, facts.op.empty() ? "" : " in " + facts.op,
                     to_string(facts.need), indented(facts.refusal->reason));
}

std::vector<std::string> remedies_of(const OutOfBudget::Facts& facts) {
  std::vector<std::string> remedies;
  if (facts.refusal) {
    if (!facts.refusal->remedy.empty()) remedies.push_back(facts.refusal->remedy);
    remedies.emplace_back("Let fewer tensors live at once.");
    return remedies;
  }
  if (!facts.idle_mode.empty()) {
    remedies.push_back(fmt::format(
        "Unset SPILLWAY_MODE={}, which moves nothing: then what does not fit is evicted.",
        facts.idle_mode));
  }
  if (!facts.why.empty()) {
    remedies.emplace_back("Mend what held eviction up (see above).");
  }
  remedies.push_back(fmt::format("Raise {} to {}{}.", facts.limit, to_string(facts.smallest_budget),
                                 facts.is_all ? "" : " or more"));
  remedies.insert(remedies.end(), facts.remedies.begin(), facts.remedies.end());
  if (facts.small >= saturating_sub(facts.need, facts.have)) {
    remedies.push_back(
        fmt::format("Lower SPILLWAY_MIN_SIZE: tensors too small to move hold {} together.",
                    to_string(facts.small)));
  }
  if (facts.idle_mode.empty()) {
    remedies.emplace_back("Set SPILLWAY_OVER=allow, which lets single ops exceed the budget.");
  }
  return remedies;
}

std::string text_of(const OutOfBudget::Facts& facts) {
  std::string text = facts.refusal ? refusal_lines(facts) : shortage_lines(facts);
  if (!facts.refusal && !facts.why.empty()) {
    text += indented("Eviction was held up: " + ended_with_point(facts.why));
  }
  if (!facts.waited.empty()) text += indented(facts.waited);
  if (!facts.also_known_as.empty()) text += indented(facts.also_known_as);
  if (!facts.refusal && !facts.pinned.empty()) {
    text += indented("Largest storages that could not leave:");
    for (const std::string& line : facts.pinned) text += indented("  " + line);
  }
  text += "\nWhat helps, any of:";
  for (const std::string& remedy : remedies_of(facts)) text += listed(remedy);
  return text;
}

}  // namespace

OutOfBudget::OutOfBudget(Facts facts)
    : std::runtime_error(text_of(facts)), facts_(std::move(facts)) {}

}  // namespace spillway::runtime
