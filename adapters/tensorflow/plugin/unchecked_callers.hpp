// SPDX-License-Identifier: Apache-2.0
// Whether who asks the framework's allocator for memory looks at what it got.
//
// Kernels ask by OpKernelContext, and a null pointer becomes the op's error. What makes a tensor of
// a numpy array or of Python values copies into it all the same, and so do kernels whose workspace
// comes from Eigen's device (BiasAddGrad), and oneDNN's: a segmentation fault. The call stack tells
// them apart.
// It is looked at only where an allocation has failed, so what that costs matters to nobody.
#pragma once

namespace spillway::tf {

/// Whether a null pointer, given to who called us, becomes an error. Thread-safe.
bool caller_checks();

}  // namespace spillway::tf
