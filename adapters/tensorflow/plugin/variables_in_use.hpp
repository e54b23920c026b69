// SPDX-License-Identifier: Apache-2.0
// The variables and constants in the store that an op works on, from before it begins until it has
// ended.
//
// An op is given a tensor, all of which it works on, or a variable, of which it may choose a part:
// the rows of a gather or of a sparse update. One that is given many at once, which pass half of
// the budget, such as an op that saves a checkpoint, could not have them all counted: none then
// counts for it, and the summary says how many bytes such ops were given at most.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "variables.hpp"

namespace spillway::tf {

class VariablesInUse {
 public:
  /// Waits for room.
  VariablesInUse(const ::tensorflow::OpKernel& kernel, ::tensorflow::OpKernelContext& context);
  ~VariablesInUse();
  VariablesInUse(const VariablesInUse&) = delete;
  VariablesInUse& operator=(const VariablesInUse&) = delete;

  /// Why the op may not run; or empty.
  [[nodiscard]] const std::string& reason() const { return reason_; }

 private:
  void find(const ::tensorflow::OpKernel& kernel, ::tensorflow::OpKernelContext& context);
  struct Used {
    std::shared_ptr<VariableMemory> memory;
    Part part = Part::kAll;
    runtime::Access access = runtime::Access::kRead;
  };

  void add(Used use);

  std::vector<Used> used_;
  std::string reason_;
};

}  // namespace spillway::tf
