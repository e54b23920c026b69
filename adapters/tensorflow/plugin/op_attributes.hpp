// SPDX-License-Identifier: Apache-2.0
// What the rewriting wrote into the nodes of our ops, as their kernels read it when they are made.
// An attribute that is not there is an error of the construction.
#pragma once

#include <cstdint>
#include <string>

#include "finished_step.hpp"
#include "interned_names.hpp"
#include "tensorflow/core/framework/op_kernel.h"

namespace spillway::tf {

inline std::uint64_t number_of(::tensorflow::OpKernelConstruction* construction,
                               const char* attribute) {
  int64_t number = 0;
  const auto status = construction->GetAttr(attribute, &number);
  if (!status.ok()) construction->SetStatus(status);
  return static_cast<std::uint64_t>(number);
}

/// The node that makes what the pair moves, without the function that it was inlined from.
inline const char* maker_of(::tensorflow::OpKernelConstruction* construction,
                            InternedNames& names) {
  std::string node;
  const auto status = construction->GetAttr("made_by", &node);
  if (!status.ok()) construction->SetStatus(status);
  return names.intern(name_in_function(node));
}

}  // namespace spillway::tf
