// SPDX-License-Identifier: Apache-2.0
// Names that are told apart by their address, as MoveTally tells them.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace spillway::tf {

/// Thread-safe.
class InternedNames {
 public:
  /// The same pointer for the same text, good for as long as this lives.
  const char* intern(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(text);
    return (found == names_.end() ? *names_.emplace(text).first : *found).c_str();
  }

  void before_fork() { mutex_.lock(); }
  void after_fork() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace spillway::tf
