// SPDX-License-Identifier: Apache-2.0
// The summary of `spillway run` when the program has ended. Pure, thread-safe; at most 80 columns;
// words as in docs/glossary.md.
#pragma once

#include <string>

#include "run/status_totals.hpp"

namespace spillway::tools {

/// Several lines, each ended by a newline.
/// `failed`: the program did not end with status 0.
std::string format_summary(const StatusTotals& totals, bool failed = false);

/// For a program that never claimed a slot although a limit was asked for. `autoload_is_off`: the
/// environment holds TORCH_DEVICE_BACKEND_AUTOLOAD=0.
std::string format_never_loaded(bool autoload_is_off);

/// For a program with a budget of a graphics card that it did not use.
std::string format_card_unused();

}  // namespace spillway::tools
