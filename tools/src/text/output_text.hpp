// SPDX-License-Identifier: Apache-2.0
// Printing of values that come from files: JSON, and names that fit a row of a terminal.
// Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace spillway::tools {

/// The width of a terminal: what is printed for people is no wider.
inline constexpr std::size_t kColumns = 80;

/// Members stay in the order in which they were added.
using Json = nlohmann::ordered_json;

/// As printed on standard output. Names come from files and may be no UTF-8: what is not becomes
/// the replacement character.
std::string json_text(const Json& json);

/// Names come from a file: printable, and at most `width` columns.
std::string printable(std::string_view name, std::size_t width);

}  // namespace spillway::tools
