// SPDX-License-Identifier: Apache-2.0
// The types of what a node puts out, from the description of its op (a message OpDef, as bytes).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph_def.hpp"

namespace spillway::tf {

/// A number of TensorFlow's enum DataType.
using DataType = std::uint64_t;
constexpr DataType kFloat = 1;
constexpr DataType kInt32 = 3;

/// Whether a tensor of this type is its bytes and nothing else: no strings, handles, variants; no
/// references to a variable's memory.
bool is_plain(DataType type);

/// The description of an op by its name; empty where nobody knows the op.
using OpCatalogue = std::function<std::string(std::string_view op)>;

/// One type for each output. Empty where that cannot be told.
std::vector<DataType> output_types(const Node& node, std::string_view description);

}  // namespace spillway::tf
