// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>

namespace spillway::runtime {

/// Asks the kernel, which refuses where an access would fault.
class AccessProbe {
 public:
  AccessProbe() { static_cast<void>(::pipe2(ends_.data(), O_NONBLOCK)); }
  ~AccessProbe() {
    for (const int end : ends_) ::close(end);
  }
  AccessProbe(const AccessProbe&) = delete;
  AccessProbe& operator=(const AccessProbe&) = delete;

  bool readable(const std::byte* at) {
    const bool is = ::write(ends_[1], at, 1) == 1;
    char byte = 0;
    return is && ::read(ends_[0], &byte, 1) == 1;
  }
  /// Leaves what is there.
  bool writable(std::byte* at) {
    if (::write(ends_[1], at, 1) != 1) return false;
    if (::read(ends_[0], at, 1) == 1) return true;
    char byte = 0;
    static_cast<void>(::read(ends_[0], &byte, 1) == 1);
    return false;
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

}  // namespace spillway::runtime
