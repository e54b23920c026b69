// SPDX-License-Identifier: Apache-2.0
#include "process/exec_vector.hpp"

#include <fmt/format.h>

namespace spillway::tools {
namespace {

std::vector<std::string> assignments(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> texts;
  texts.reserve(variables.size());
  for (const auto& [name, value] : variables) texts.push_back(fmt::format("{}={}", name, value));
  return texts;
}

}  // namespace

ExecVector::ExecVector(std::vector<std::string> texts) : texts_(std::move(texts)) {
  pointers_.reserve(texts_.size() + 1);
  for (std::string& text : texts_) pointers_.push_back(text.data());
  pointers_.push_back(nullptr);
}

ExecVector::ExecVector(const std::vector<std::pair<std::string, std::string>>& variables)
    : ExecVector(assignments(variables)) {}

}  // namespace spillway::tools
