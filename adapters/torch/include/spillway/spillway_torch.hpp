// SPDX-License-Identifier: Apache-2.0
// Spillway for libtorch programs.
//
//     #include <spillway/spillway_torch.hpp>
//     spillway::runtime::Settings settings;
//     settings.budget = spillway::runtime::parse_budget("1GiB", "budget");
//     spillway::torch::enable(settings);     // before the model is made
#pragma once

#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::torch {

/// Manages all CPU tensors of this process made from now on. Throws UserError. Call it before other
/// threads use torch.
__attribute__((visibility("default"))) void enable(const runtime::Settings& settings);

/// Everything comes back into memory; nothing moves any more.
__attribute__((visibility("default"))) void disable();

/// Counters of this process.
__attribute__((visibility("default"))) runtime::Statistics statistics();

}  // namespace spillway::torch
