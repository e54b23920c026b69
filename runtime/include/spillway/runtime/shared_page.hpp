// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace spillway::runtime {

/// Memory that several processes map: a memfd, reached by others through its path in /proc.
///
/// Its size is sealed: a process that cut it short would kill every other with SIGBUS. Unmapped on
/// destruction. The contents are zero at first, and everybody's: change them with atomics alone.
class SharedPage {
 public:
  /// A new page. `path()` is valid for others while this object lives. Throws UserError where the
  /// system gives none.
  static SharedPage create(const char* name, std::size_t bytes);
  /// Maps an existing one; an empty object if `path` names nothing, or no page of that name and
  /// size.
  static SharedPage open(const std::string& path, const char* name, std::size_t bytes);

  SharedPage() = default;
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&& other) noexcept;
  ~SharedPage();

  [[nodiscard]] void* memory() const { return memory_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  int descriptor_ = -1;
  std::string path_;
};

}  // namespace spillway::runtime
