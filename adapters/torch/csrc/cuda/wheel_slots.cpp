// SPDX-License-Identifier: Apache-2.0
// A pointer to a virtual member function holds its place in the table (Itanium C++ ABI 2.3: one
// more than the offset in bytes, then the adjustment of `this`). Nothing of torch's is linked for
// that.
#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <cstring>

#include "cuda/slots.hpp"

namespace spillway::torch::cuda {

namespace {

using Allocator = c10::cuda::CUDACachingAllocator::CUDAAllocator;

template <class Function>
std::size_t slot(Function function) {
  std::array<std::size_t, 2> words{};
  static_assert(sizeof function == sizeof words);
  std::memcpy(words.data(), &function, sizeof words);
  return (words[0] - 1) / sizeof(void*);
}

}  // namespace

const Slots* slots_of_torch() {
  using OnStream = void (Allocator::*)(const c10::DataPtr&, c10::Stream);
  using OnCudaStream = void (Allocator::*)(const c10::DataPtr&, c10::cuda::CUDAStream);
  static const Slots slots{
      .allocate = slot(&Allocator::allocate),
      .raw_deleter = slot(&Allocator::raw_deleter),
      .empty_cache = slot(&Allocator::emptyCache),
      .device_stats = slot(&Allocator::getDeviceStats),
      .reset_peak_stats = slot(&Allocator::resetPeakStats),
      .record_stream = slot(static_cast<OnStream>(&Allocator::recordStream)),
      .record_cuda_stream = slot(static_cast<OnCudaStream>(&Allocator::recordStream)),
      .raw_alloc = slot(&Allocator::raw_alloc),
      .raw_alloc_with_stream = slot(&Allocator::raw_alloc_with_stream),
      .raw_delete = slot(&Allocator::raw_delete),
      .base_allocation = slot(&Allocator::getBaseAllocation),
      .begin_pool = slot(&Allocator::beginAllocateToPool),
      .end_pool = slot(&Allocator::endAllocateToPool),
      .share_ipc_handle = slot(&Allocator::shareIpcHandle)};
  return &slots;
}

}  // namespace spillway::torch::cuda
