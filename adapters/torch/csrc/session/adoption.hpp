// SPDX-License-Identifier: Apache-2.0
// Tensors that are older than the allocator: those that a program made before enable().
//
// They lie in memory of torch's own, which nobody counts and nothing can evict. To manage one is to
// copy it and to free where it was, which must not happen under whoever holds a pointer there. A
// pointer cannot be seen, so a tensor is taken in only where nobody can hold one:
//
//     a running op, here           enable() is not called from within torch
//     a running op, elsewhere      no other thread runs, by the kernel's account, and the caller
//                                  holds the interpreter's lock, without which none goes on
//     an array of numpy            torch notes at the storage that it can't be resized any more
//     a consumer of DLPack, or     each reference to the tensor and to its storage is accounted
//     other code that holds it     for: an object of Python, the gradient of such a tensor, the
//                                  node that accumulates it, a view
//
// All others stay where they are. Addresses that the program took before, as numbers, are not good
// afterwards; there is no way to know of them.
#pragma once

#include <span>
#include <string>

#include "torch_headers.hpp"

namespace spillway::torch {

/// False if `adopt` left nothing, and no smaller storages are managed now than were then.
bool may_be_older();

/// Takes in what it can of `tensors`, each of which one object of Python holds, and their
/// gradients, the largest last. Evicts what does not fit together. Called with the interpreter's
/// lock held, and no other.
///
/// Returns a sentence on what stays outside, if that is large enough to move; else nothing.
std::string adopt(std::span<c10::TensorImpl* const> tensors);

}  // namespace spillway::torch
