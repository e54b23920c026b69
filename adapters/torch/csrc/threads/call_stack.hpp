// SPDX-License-Identifier: Apache-2.0
// Whether the calling thread is inside an op, read from its stack. For threads that have run ops
// which nobody saw begin: see unseen_ops.hpp.
//
//     newest   this library                               skipped
//              RecordFunction, Dispatcher, at::_ops::X    the op that begins: X is its name
//              libtorch_python                            the binding of X
//              libpython, libc, ...                       no code of torch, down to the bottom
//     oldest   _start, or where the thread began
//
// An op's kernel is code of torch, of a library that uses torch, or of Python; Python's is called
// by code of torch. So where no such frame is left, no op is under way. Everything else, such as a
// frame that is not known or a stack that can't be followed to its bottom, proves nothing.
#pragma once

#include "torch_headers.hpp"

namespace spillway::torch {

/// For a callback of `function`, which begins or ends: true only if no other op is under way in
/// this thread. Takes some tens of microseconds, and the loader's lock.
[[nodiscard]] bool is_only_op(const at::RecordFunction& function);

/// For a function of this library that Python calls: true only if the thread is inside no op.
[[nodiscard]] bool is_inside_no_op();

}  // namespace spillway::torch
