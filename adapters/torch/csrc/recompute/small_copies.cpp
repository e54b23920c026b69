// SPDX-License-Identifier: Apache-2.0
#include "recompute/small_copies.hpp"

#include <ATen/ops/from_blob.h>

#include <cstring>
#include <new>
#include <unordered_map>
#include <utility>

#include "recompute/below_all.hpp"
#include "session/small_versions.hpp"

namespace spillway::torch {

namespace {

// So that kernels find the alignment that torch's own memory has.
constexpr std::size_t kAlignment = 64;
// Copies that a thread knows; then it begins anew.
constexpr std::size_t kMostKnown = 4096;

struct Known {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  std::uint32_t version;
  std::weak_ptr<const SmallCopy> copy;  // which the calls own that read it
};

std::size_t rounded(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
}

}  // namespace

SmallCopy::SmallCopy(const c10::StorageImpl& storage)
    : bytes_(storage.nbytes()), device_(storage.device()) {
  const void* const data = storage.data();
  if (device_.is_cpu()) {
    memory_.reset(std::aligned_alloc(kAlignment, rounded(bytes_)));
    if (memory_ == nullptr) throw std::bad_alloc();
    if (bytes_ != 0) std::memcpy(memory_.get(), data, bytes_);
    return;
  }
  const BelowAll below;
  tensor_ = at::from_blob(const_cast<void*>(data),  // NOLINT: it is read
                          {static_cast<std::int64_t>(bytes_)},
                          at::TensorOptions().dtype(at::kByte).device(device_))
                .clone();
}

c10::intrusive_ptr<c10::StorageImpl> SmallCopy::storage() const {
  if (tensor_.defined()) {
    return c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
        tensor_.storage().unsafeGetStorageImpl());
  }
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes_,
                                               c10::DataPtr(memory_.get(), device_), nullptr,
                                               false);
}

std::shared_ptr<const SmallCopy> copy_of_small(c10::StorageImpl& storage, bool shows_writes) {
  if (!shows_writes || !shows_small_writes(storage))
    return std::make_shared<const SmallCopy>(storage);
  thread_local std::unordered_map<const c10::StorageImpl*, Known> known;
  const std::uint32_t version = version_of_small(storage);
  const auto found = known.find(&storage);
  if (found != known.end() && found->second.version == version &&
      !found->second.storage.expired()) {
    if (auto copy = found->second.copy.lock()) return copy;
  }
  auto copy = std::make_shared<const SmallCopy>(storage);
  if (known.size() >= kMostKnown) known.clear();
  c10::raw::weak_intrusive_ptr::incref(&storage);
  known.insert_or_assign(
      &storage, Known{.storage = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(&storage),
                      .version = version,
                      .copy = copy});
  return copy;
}

}  // namespace spillway::torch
