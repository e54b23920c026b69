// SPDX-License-Identifier: Apache-2.0
// Help texts, at most 80 columns wide. CLI11 holds the words; its own formatter does not wrap.
// Pure functions of their argument; they throw nothing but std::bad_alloc.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace spillway::tools {

/// `spillway`, `spillway run`, `spillway trace show`.
std::string command_path(const CLI::App& command);

std::string help_text(const CLI::App& command);

}  // namespace spillway::tools
