// SPDX-License-Identifier: Apache-2.0
// The decisions of a plan in words, as lines of at most 80 columns. Pure functions; thread-safe.
#pragma once

#include <string>

#include "explain/explain_command.hpp"

namespace spillway::tools {

std::string text_of(const ExplanationAnswer& answer);

}  // namespace spillway::tools
