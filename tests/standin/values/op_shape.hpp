// SPDX-License-Identifier: Apache-2.0
// An op's schema, as far as running it elsewhere needs to know it.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace spillway::standin {

struct OpShape {
  explicit OpShape(const c10::OperatorHandle& op);

  std::string name;                ///< with its overload
  std::vector<bool> is_out;        ///< of each argument
  std::vector<bool> is_generator;  ///< of each argument
  /// Of each result: the argument that it is. None: it is new.
  std::vector<std::optional<std::size_t>> is_argument;
  bool has_outs = false;
  bool makes_tensors = false;
  bool makes_numbers = false;  ///< values that the host waits for
};

}  // namespace spillway::standin
