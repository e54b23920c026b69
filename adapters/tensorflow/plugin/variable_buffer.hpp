// SPDX-License-Identifier: Apache-2.0
// The memory of a variable that lies in the store (variables.hpp), as a buffer of the framework's.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/tensor.h"
#include "variables.hpp"

namespace spillway::tf {

class VariableBuffer : public ::tensorflow::TensorBuffer {
 public:
  explicit VariableBuffer(std::shared_ptr<VariableMemory> memory)
      : TensorBuffer(memory->data()), memory_(std::move(memory)) {}

  size_t size() const override { return memory_->bytes().count; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(::tensorflow::AllocationDescription*) const override {}
  [[nodiscard]] VariableMemory& memory() const { return *memory_; }

  /// The one behind a tensor, or null.
  static VariableBuffer* in(const ::tensorflow::Tensor& tensor) {
    auto* const buffer =
        const_cast<::tensorflow::TensorBuffer*>(::tensorflow::DMAHelper::buffer(&tensor));
    return buffer == nullptr ? nullptr : dynamic_cast<VariableBuffer*>(buffer->root_buffer());
  }

 private:
  std::shared_ptr<VariableMemory> memory_;
};

}  // namespace spillway::tf
