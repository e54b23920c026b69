// SPDX-License-Identifier: Apache-2.0
#include "swap_token.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

#include "spillway/base/bytes.hpp"
#include "tensorflow/core/common_runtime/dma_helper.h"

namespace spillway::tf {
namespace {

using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

// Addresses without memory, more than any tensor has.
void* nowhere() {
  constexpr std::size_t kBytes = std::size_t{1} << 40;
  static void* const address = [] {
    void* const range =
        ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? reinterpret_cast<void*>(4096) : range;
  }();
  return address;
}

}  // namespace

SwapToken::SwapToken(std::shared_ptr<WaitingTensor> waiting, WaitingTensors& owner)
    : TensorBuffer(nowhere()), waiting_(std::move(waiting)), owner_(owner) {}

SwapToken::~SwapToken() { owner_.abandon(waiting_); }

const SwapToken* SwapToken::in(const Tensor& tensor) {
  auto* const buffer = const_cast<TensorBuffer*>(::tensorflow::DMAHelper::buffer(&tensor));
  return buffer == nullptr ? nullptr : dynamic_cast<const SwapToken*>(buffer->root_buffer());
}

std::string not_brought_back(const Tensor& token, const std::string& reason) {
  const WaitingTensor& waiting = *SwapToken::in(token)->waiting();
  const std::string maker = waiting.made_by() == nullptr
                                ? std::string()
                                : fmt::format(" that {} made", waiting.made_by());
  return fmt::format("Spillway could not bring back a tensor of {}{}: {}",
                     to_string(waiting.bytes()), maker, reason);
}

Tensor tensor_over(TensorBuffer* buffer, ::tensorflow::DataType type,
                   const ::tensorflow::TensorShape& shape) {
  Tensor tensor(type, shape, buffer);
  buffer->Unref();
  return tensor;
}

Tensor tensor_over(TensorBuffer* buffer, const Tensor& like) {
  return tensor_over(buffer, like.dtype(), like.shape());
}

}  // namespace spillway::tf
