// SPDX-License-Identifier: Apache-2.0
// Where the calling thread's next allocation of a size belongs: an op that is run again puts its
// result where it was before.
#pragma once

#include <cstddef>
#include <utility>

namespace spillway::torch {

/// Until it ends, the first allocation of `bytes` is `place`. Not nested.
class Landing {
 public:
  Landing(void* place, std::size_t bytes) : place_(place), bytes_(bytes) { current() = this; }
  ~Landing() { current() = nullptr; }
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  /// For allocators: the place, once; null where the allocation is another one.
  static void* take(std::size_t bytes) {
    Landing* const landing = current();
    if (landing == nullptr || landing->bytes_ != bytes) return nullptr;
    return std::exchange(landing->place_, nullptr);
  }

 private:
  static Landing*& current() {
    static thread_local Landing* landing = nullptr;
    return landing;
  }

  void* place_;
  std::size_t bytes_;
};

}  // namespace spillway::torch
