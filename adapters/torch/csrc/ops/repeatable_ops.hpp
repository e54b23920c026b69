// SPDX-License-Identifier: Apache-2.0
// Which operators give the same bits when they run again with the same inputs.
#pragma once

#include <cstdint>

#include "torch_headers.hpp"

namespace spillway::torch {

enum class Repeatable : std::uint8_t {
  kNo,         ///< not known to be
  kMakes,      ///< its results are new tensors
  kOverwrites  ///< its result is its first argument, overwritten
};

/// Only what has a kernel of its own, draws no random numbers and depends on its arguments alone.
/// Of those, what costs about its bytes.
Repeatable repeatable(const c10::FunctionSchema& schema);

/// Whether an operator reaches memory by itself. Others only call operators.
bool has_kernel(const c10::FunctionSchema& schema);

/// Normalisations that in training update running statistics, which their result does not depend on
/// then: they are run again without them. Bit i for argument i; 0: the operator is no such.
struct RunningStatistics {
  std::uint64_t arguments = 0;
  std::size_t training = 0;  ///< the argument that says whether it is training
};
RunningStatistics running_statistics(const c10::FunctionSchema& schema);

}  // namespace spillway::torch
