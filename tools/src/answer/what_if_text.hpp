// SPDX-License-Identifier: Apache-2.0
// Writes what `what-if` found out, in lines of at most 80 columns. Pure functions; thread-safe.
#pragma once

#include <string>

#include "plan/what_if_batch.hpp"
#include "plan/what_if_command.hpp"

namespace spillway::tools {

std::string text_of(const SmallestBudgetAnswer& answer);
std::string text_of(const FitsAnswer& answer);
std::string text_of(const LargestBatchAnswer& answer);

}  // namespace spillway::tools
