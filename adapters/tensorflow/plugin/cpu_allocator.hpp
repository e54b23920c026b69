// SPDX-License-Identifier: Apache-2.0
// The framework's allocator for the processor: ours, in place of its own two.
#pragma once

namespace spillway::tf {

/// Registers it above TensorFlow's and oneDNN's. The framework makes its allocator at the first
/// tensor, and asks nobody later.
void register_cpu_allocator();

}  // namespace spillway::tf
