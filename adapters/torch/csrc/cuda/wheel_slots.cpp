// SPDX-License-Identifier: Apache-2.0
// A pointer to a virtual member function holds its place in the table (Itanium C++ ABI 2.3: one
// more than the offset in bytes, then the adjustment of `this`). Nothing of torch's is linked for
// that.
//
// The signatures are those that allocator_hook.cpp calls and answers with: against a torch that has
// others this does not compile.
#include <c10/cuda/CUDACachingAllocator.h>

#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "cuda/slots.hpp"

namespace spillway::torch::cuda {

namespace {

using c10::DataPtr;
using c10::DeviceIndex;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;
using c10::cuda::CUDACachingAllocator::ShareableHandle;
using PoolId = std::pair<unsigned long long, unsigned long long>;
using StreamFilter = std::function<bool(cudaStream_t)>;

template <class Signature, class Class>
std::size_t slot(Signature Class::*function) {
  std::array<std::size_t, 2> words{};
  static_assert(sizeof function == sizeof words);
  std::memcpy(words.data(), &function, sizeof words);
  return (words[0] - 1) / sizeof(void*);
}

}  // namespace

const Slots* slots_of_torch() {
  using A = CUDAAllocator;
  static const Slots slots{
      .allocate = slot<DataPtr(std::size_t)>(&A::allocate),
      .raw_deleter = slot<c10::DeleterFnPtr() const>(&A::raw_deleter),
      .empty_cache = slot<void(PoolId)>(&A::emptyCache),
      .device_stats = slot<DeviceStats(DeviceIndex)>(&A::getDeviceStats),
      .reset_peak_stats = slot<void(DeviceIndex)>(&A::resetPeakStats),
      .record_stream = slot<void(const DataPtr&, c10::Stream)>(&A::recordStream),
      .record_cuda_stream = slot<void(const DataPtr&, c10::cuda::CUDAStream)>(&A::recordStream),
      .raw_alloc = slot<void*(std::size_t)>(&A::raw_alloc),
      .raw_alloc_with_stream = slot<void*(std::size_t, cudaStream_t)>(&A::raw_alloc_with_stream),
      .raw_delete = slot<void(void*)>(&A::raw_delete),
      .base_allocation = slot<void*(void*, std::size_t*)>(&A::getBaseAllocation),
      .begin_pool = slot<void(DeviceIndex, PoolId, StreamFilter)>(&A::beginAllocateToPool),
      .end_pool = slot<void(DeviceIndex, PoolId)>(&A::endAllocateToPool),
      .share_ipc_handle = slot<ShareableHandle(void*)>(&A::shareIpcHandle),
      .enable_peer_access = slot<void(DeviceIndex, DeviceIndex)>(&A::enablePeerAccess),
      .memcpy_async =
          slot<cudaError_t(void*, int, const void*, int, std::size_t, cudaStream_t, bool)>(
              &A::memcpyAsync)};
  return &slots;
}

}  // namespace spillway::torch::cuda
