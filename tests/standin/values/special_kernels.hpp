// SPDX-License-Identifier: Apache-2.0
// Kernels of ops that the one boxed kernel cannot stand for: copies, which on a card are the
// driver's; and what has a kernel for cards alone, by its formula.
#pragma once

#include <torch/library.h>

#include <set>
#include <string>

namespace spillway::standin {

/// Full names.
const std::set<std::string>& special_names();
void add_special_kernels(torch::Library& library);

}  // namespace spillway::standin
