// SPDX-License-Identifier: Apache-2.0
// torch's CPU allocator, served by the CPU's engine.
#pragma once

#include "spillway/runtime/exec/engine.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

/// The function that frees memory of the allocator; marks a DataPtr as ours.
c10::DeleterFnPtr cpu_deleter();
/// torch's CPU allocator from now on, with a priority above the default. `engine` lives as long as
/// the process.
void install_cpu_allocator(runtime::Engine& engine);

}  // namespace spillway::torch
