// SPDX-License-Identifier: Apache-2.0
// Workspace of kernels, learned from steps that ran and lent to steps that were recorded
// without running.
//
// A step recorded without memory knows every storage and no workspace. The same kinds of ops with
// as many bytes read and written, run on the machine that is planned for, held what the machine's
// table says: `learn_workspace` fills the table, `lend_workspace` puts it into such a trace. What a
// convolution holds depends on more than its bytes (strides, the algorithm chosen); of several
// figures for one size the largest is kept.
//
// Pure functions, O(ops log table).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// Adds to the machine's table what the ops of the step held beyond what they left behind: their
/// workspace, and the storages that they made and freed. `source` says where the step is from.
/// Throws UserError for a trace without workspace.
void learn_workspace(Machine& machine, const Trace& trace, std::string_view source);

/// Sets the workspace of the ops that the machine's table has, less what the trace shows them
/// to make and free. By op, 1: it has. A trace that
/// knows its workspace stays as it is, and all are known.
std::vector<std::uint8_t> lend_workspace(Trace& trace, const Machine& machine);

}  // namespace spillway::planning
