// SPDX-License-Identifier: Apache-2.0
// Reads from the calling thread's stack whether it is inside an op. For threads that have run ops
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
//
// Nothing else can tell. A thread that rests runs no code of ours when an op begins: to run some is
// the cost that resting saves. torch keeps no list of open ops: its dispatch keys, grad mode and
// graph tasks change in some kernels and not in others. Python's frames lack kernels in C++. That
// time has passed proves nothing, since a kernel may take any.
//
// If it errs by saying false (no unwind tables, an entry that the compiler inlined, another name of
// an op in a torch to come), the thread never rests, or stays in doubt: nothing leaves, and what
// exceeds the budget is counted (overshoot_bytes) and said once. If it errs by saying true, an open
// kernel lies in a library that names nothing of torch, which can only be one that torch was linked
// into with all its names removed, or one that was handed pointers to functions. Tensors that such
// a kernel uses may then leave: an access to one ends the process with the message of the fault
// handler, and no value is read wrong (docs/pytorch.md).
#pragma once

#include "torch_headers.hpp"

namespace spillway::torch {

/// For a callback of `function`, which begins or ends: true only if no other op is under way in
/// this thread. Takes some tens of microseconds, and the loader's lock.
[[nodiscard]] bool is_only_op(const at::RecordFunction& function);

/// For a function of this library that Python calls: true only if the thread is inside no op.
[[nodiscard]] bool is_inside_no_op();

}  // namespace spillway::torch
