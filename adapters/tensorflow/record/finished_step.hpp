// SPDX-License-Identifier: Apache-2.0
// Completes the record of a run of a graph once it has ended: pure functions of a trace whose ops
// have the name of their node as source.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tf {

/// A node's name without the functions that it was inlined from.
std::string_view name_in_function(std::string_view node);

/// The layer, or another scope, that a node is of: its name in its function without its own part.
/// `StatefulPartitionedCall/model/conv_1/Relu` is of `model/conv_1`.
std::string scope_of(std::string_view node);

/// Sets each op's workspace to `peaks`, the most that was allocated while it ran, less the storages
/// alive then.
void measure_workspace(Trace& trace, std::span<const Bytes> peaks);

/// Sets roles by who updates a storage and who reads it, for those that have none or are
/// activations:
///
///     parameter         read by a layer, be it that an optimizer updates it
///     optimizer state   updated by an optimizer and read by nobody else
///     gradient          made by others and read by an optimizer
///
/// An optimizer is a scope that updates a storage that another scope reads.
void tell_roles(Trace& trace);

}  // namespace spillway::tf
