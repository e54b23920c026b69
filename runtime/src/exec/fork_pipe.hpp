// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::runtime {

/// Tells the spool when the children of a fork are gone: until then they may read evicted storages
/// through the inherited descriptor, and those extents are not reused.
///
///     before_fork    the spool gets the reading end of a pipe
///     in the parent  the writing end is closed
///     in the child   it stays open for the child's life: its closing is the signal
///
/// By the thread that forks, under the engine's lock.
class ForkPipe {
 public:
  void before_fork(Spool& spool);
  void after_fork_in_parent();
  void after_fork_in_child() { write_ = -1; }

 private:
  int write_ = -1;
};

}  // namespace spillway::runtime
