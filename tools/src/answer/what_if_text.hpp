// SPDX-License-Identifier: Apache-2.0
// What `what-if` found out, as lines of at most 80 columns. Pure functions; thread-safe.
#pragma once

#include <string>

#include "plan/what_if_batch.hpp"
#include "plan/what_if_command.hpp"

namespace spillway::tools {

std::string text_of(const SmallestBudgetAnswer& answer);
std::string text_of(const FitsAnswer& answer);
std::string text_of(const LargestBatchAnswer& answer);

}  // namespace spillway::tools
