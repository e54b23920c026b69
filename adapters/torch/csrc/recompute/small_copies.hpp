// SPDX-License-Identifier: Apache-2.0
// Copies of storages that no engine moves, for ops that may run again after these were written:
// weights of norms, biases, scalars.
//
// An op that reads one has a copy of its bytes as they are then; as long as it is not written, ops
// of the thread share one. See small_versions.hpp. Errors: what torch throws where memory is short.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

#include "torch_headers.hpp"

namespace spillway::torch {

class SmallCopy {
 public:
  explicit SmallCopy(const c10::StorageImpl& storage);
  SmallCopy(const SmallCopy&) = delete;
  SmallCopy& operator=(const SmallCopy&) = delete;

  /// A storage over it, which does not own it.
  [[nodiscard]] c10::intrusive_ptr<c10::StorageImpl> storage() const;

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;  // of the processor, or
  at::Tensor tensor_;                   // of a card
  std::size_t bytes_;
  c10::Device device_;
};

/// What is larger is not copied: nobody counts the copies. On a card everything up to a mebibyte is
/// PyTorch's own.
inline std::size_t most_copied(const c10::Device& device) {
  return std::size_t{1} << (device.is_cpu() ? 16U : 20U);
}

/// The bytes of the storage now. `shows_writes`: its memory is written by ops alone, and not by
/// whoever else it is of.
std::shared_ptr<const SmallCopy> copy_of_small(c10::StorageImpl& storage, bool shows_writes);

}  // namespace spillway::torch
