// SPDX-License-Identifier: Apache-2.0
// Tells whether a caller of the framework's allocator checks that it got memory.
//
// Kernels ask by OpKernelContext, and a null pointer becomes the op's error. Code that makes a
// tensor of a numpy array or of Python values copies into it all the same, and so do kernels with
// workspace from Eigen's device (BiasAddGrad), and oneDNN's: a segmentation fault. The call stack
// tells them apart. It is looked at only where an allocation has failed, so its cost is no matter.
#pragma once

namespace spillway::tf {

/// Whether a null pointer, given to who called us, becomes an error. Thread-safe.
bool caller_checks();

}  // namespace spillway::tf
