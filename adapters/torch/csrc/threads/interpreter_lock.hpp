// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway::torch {

/// Lets go of Python's global lock if the calling thread holds it: other threads may need it to end
/// the ops that this one waits for. Null if there is nothing to let go of: the lock is not held, or
/// no Python with visible symbols runs here. Any thread, with no lock of ours held.
void* let_go_of_interpreter();

/// Takes the lock again; `held` came from `let_go_of_interpreter` on this thread and is not null.
void take_interpreter_again(void* held);

/// How often the calling thread has let go of it so far, to tell whether others may have run.
std::uint64_t times_interpreter_was_let_go();

}  // namespace spillway::torch
