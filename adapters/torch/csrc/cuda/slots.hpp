// SPDX-License-Identifier: Apache-2.0
// Where the virtual functions of torch's allocator for graphics cards stand in its table. Torch
// promises no order: the numbers are read from the header of the torch that this library is built
// for (wheel_slots.cpp).
#pragma once

#include <cstddef>

namespace spillway::torch::cuda {

struct Slots {
  std::size_t allocate;
  std::size_t raw_deleter;
  std::size_t empty_cache;
  std::size_t device_stats;
  std::size_t reset_peak_stats;
  std::size_t record_stream;
  std::size_t record_cuda_stream;  // the same for torch's own type of a stream
  std::size_t raw_alloc;
  std::size_t raw_alloc_with_stream;
  std::size_t raw_delete;
  std::size_t base_allocation;
  std::size_t begin_pool;
  std::size_t end_pool;
  std::size_t share_ipc_handle;
  std::size_t enable_peer_access;
  std::size_t memcpy_async;
};

/// Null: this torch is built without CUDA.
const Slots* slots_of_torch();

}  // namespace spillway::torch::cuda
