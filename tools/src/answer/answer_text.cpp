// SPDX-License-Identifier: Apache-2.0
#include "answer/comparison_text.hpp"
#include "answer/explanation_text.hpp"
#include "answer/planning_answer.hpp"
#include "answer/step_text.hpp"
#include "answer/what_if_text.hpp"

namespace spillway::tools {

std::string answer_text(const PlanningAnswer& answer) {
  return std::visit([](const auto& one) { return text_of(one); }, answer);
}

}  // namespace spillway::tools
