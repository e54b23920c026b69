// SPDX-License-Identifier: Apache-2.0
// Machines as JSON. The format is described in docs/formats.md.
//
// Reading trusts nothing: what it returns is valid (see validate()), and anything else is a
// UserError that names the file and the member. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "spillway/machine/machine.hpp"

namespace spillway {

inline constexpr int kMachineVersion = 1;

std::string format_machine(const Machine& machine);

/// `what` names the text in errors.
Machine parse_machine(std::string_view text, std::string_view what);

Machine read_machine(const std::string& path);
/// Throws UserError if the file cannot be written.
void write_machine(const Machine& machine, const std::string& path);

}  // namespace spillway
