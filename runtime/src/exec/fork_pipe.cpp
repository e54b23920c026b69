// SPDX-License-Identifier: Apache-2.0
#include "fork_pipe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace spillway::runtime {

// Without a pipe (no descriptors left) the generation never ends: its extents are not reused.
void ForkPipe::before_fork(Spool& spool) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) ends = {-1, -1};
  spool.begin_fork_generation(ends[0]);
  write_ = ends[1];
}

void ForkPipe::after_fork_in_parent() {
  if (write_ >= 0) ::close(write_);
  write_ = -1;
}

}  // namespace spillway::runtime
