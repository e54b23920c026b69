// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace spillway::tools {

/// Texts as exec and posix_spawn take them: pointers to each, then a null. Owns the texts; what it
/// hands out is valid while it lives.
class ExecVector {
 public:
  explicit ExecVector(std::vector<std::string> texts);
  /// `NAME=VALUE` of each.
  explicit ExecVector(const std::vector<std::pair<std::string, std::string>>& variables);
  ExecVector(const ExecVector&) = delete;
  ExecVector& operator=(const ExecVector&) = delete;

  [[nodiscard]] char* const* data() const { return pointers_.data(); }
  /// There must be at least one text.
  [[nodiscard]] const char* front() const { return pointers_.front(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

}  // namespace spillway::tools
