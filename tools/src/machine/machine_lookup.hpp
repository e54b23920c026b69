// SPDX-License-Identifier: Apache-2.0
// Finds the machine for the word behind --machine. docs/machines.md states the rule, which the
// Python package follows too. Reads files; throws UserError naming the nearest machine, or the
// file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spillway/machine/machine.hpp"

namespace spillway::tools {

/// Whether the word names a file, since it has a `/` or ends in `.json`, rather than a machine
/// that comes with Spillway.
bool is_machine_file(std::string_view name);
/// A name among the known machines, or the path of a file.
Machine find_machine(const std::string& name);
/// As a plan keeps it: a name as it is, a file by its whole path, since by its name alone nobody
/// would find it again.
std::string kept_name(const std::string& name);
/// Sorted by name.
std::vector<Machine> known_machines();

}  // namespace spillway::tools
