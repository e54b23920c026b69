// SPDX-License-Identifier: Apache-2.0
// What a swap-out puts out and a swap-in takes: a tensor of the type and shape of the one that is
// moved, whose buffer is not its bytes but one that waits (waiting_tensors.hpp), be it here or
// elsewhere.
//
// Where the buffer's memory should be there is nothing, so that a use of a token as a tensor is a
// fault and not a wrong value.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "tensorflow/core/framework/tensor.h"
#include "waiting_tensors.hpp"

namespace spillway::tf {

class SwapToken : public ::tensorflow::TensorBuffer {
 public:
  /// `waiting` is of `owner`, which is told when no swap-in can take it any more.
  SwapToken(std::shared_ptr<WaitingTensor> waiting, WaitingTensors& owner);
  ~SwapToken() override;

  size_t size() const override { return waiting_->bytes().count; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(::tensorflow::AllocationDescription*) const override {}
  [[nodiscard]] const std::shared_ptr<WaitingTensor>& waiting() const { return waiting_; }

  /// Null where the tensor is none: it went past the pair.
  static const SwapToken* in(const ::tensorflow::Tensor& tensor);

 private:
  std::shared_ptr<WaitingTensor> waiting_;
  WaitingTensors& owner_;
};

/// The error of a swap-in whose token this is.
std::string not_brought_back(const ::tensorflow::Tensor& token, const std::string& reason);

/// A tensor over the buffer, which then belongs to it.
::tensorflow::Tensor tensor_over(::tensorflow::TensorBuffer* buffer, ::tensorflow::DataType type,
                                 const ::tensorflow::TensorShape& shape);
::tensorflow::Tensor tensor_over(::tensorflow::TensorBuffer* buffer,
                                 const ::tensorflow::Tensor& like);

}  // namespace spillway::tf
