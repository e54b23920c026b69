// SPDX-License-Identifier: Apache-2.0
// Brings variables into the store, and reports their uses where the processor is not ours: kernels
// of ours in place of two of the framework's, and ops that the rewriting puts before users.
//
//     AssignVariableOp    copies the value into the variable's own memory, where it has such
//     ReadVariableOp      hands that memory on, as the framework's does, and says that it is used
//     SpillwayUse         says so before a later user
//     SpillwayTouch       says so before an update in place
//     SpillwayRest        says, behind all updates of a step, that they were made
//     SpillwayConstant    is a large constant of a graph, in memory of the same kind
//
// Every other op of the framework works on that memory as on any other. Where each op is known
// (watched_device.hpp) the three ops of ours and a read in a graph have nothing to say.
#pragma once

#include <string_view>

namespace tensorflow {
class ResourceHandle;
}

namespace spillway::tf {

/// The program's name for a variable: a view into the handle.
std::string_view variable_name(const ::tensorflow::ResourceHandle& handle);

/// Registers the two above the framework's. Before the first op runs, and once.
void register_variable_ops();

/// Around fork(), in parent and child: nobody is at the list of variables that may move meanwhile.
void before_fork_of_variable_ops();
void after_fork_of_variable_ops();

}  // namespace spillway::tf
