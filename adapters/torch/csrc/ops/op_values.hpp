// SPDX-License-Identifier: Apache-2.0
// The tensors that the arguments and results of an op hold.
//
//     tensor, storage                        shown
//     list, tuple, dict, object of TorchScript, future with a value    looked into, to any depth
//     object of a C++ class, of Python, ...  closed: may hold tensors that nothing shows
//
// The packed weights of torch's own classes count as empty: the op that makes one keeps what it
// holds (OpFacts::packs). So do generators, streams and what else holds no memory of the CPU's.
#pragma once

#include <string>

#include "torch_headers.hpp"

namespace spillway::torch {

/// Is told what a value holds. The references are good during the call alone.
class ValueVisitor {
 public:
  virtual void tensor(const at::Tensor& tensor) = 0;
  virtual void storage(c10::StorageImpl& storage) = 0;
  /// Something that can't be looked into, by the name of its kind or class.
  virtual void closed(const std::string& name) = 0;

 protected:
  ~ValueVisitor() = default;
};

/// Shows all that `value` holds. Counts no references: a tensor's may decide what autograd does.
/// Allocates for nested values alone.
void visit_value(const c10::IValue& value, ValueVisitor& visitor);

}  // namespace spillway::torch
