// SPDX-License-Identifier: Apache-2.0
#include "storage_owner.hpp"

#include "access_flag.hpp"

namespace spillway::torch {

namespace {

template <class T>
c10::weak_intrusive_ptr<T> weak_reference(T& object) {
  c10::raw::weak_intrusive_ptr::incref(&object);
  return c10::weak_intrusive_ptr<T>::reclaim(&object);
}

}  // namespace

StorageOwner::StorageOwner(c10::StorageImpl& impl_)
    : impl(&impl_), storage(weak_reference(impl_)) {}

bool TorchFramework::may_evict(void* owner, const runtime::StorageRecord& record) noexcept {
  auto& handle = *static_cast<StorageOwner*>(owner);
  if (handle.storage.expired()) return false;
  // The memory may have moved to another storage (swap_tensors), or become copy-on-write.
  const c10::DataPtr& data = handle.impl->_mutable_data_ptr_no_checks();
  return data.get() == record.block->address && data.get_deleter() == deleter_;
}

void TorchFramework::revoke(void* owner, const runtime::StorageRecord&,
                            const std::string& reason) noexcept {
  refuse_access(*static_cast<StorageOwner*>(owner)->impl, reason);
}

void TorchFramework::grant(void* owner, const runtime::StorageRecord&) noexcept {
  allow_access(*static_cast<StorageOwner*>(owner)->impl);
}

void TorchFramework::release(void* owner) noexcept { delete static_cast<StorageOwner*>(owner); }

std::string TorchFramework::describe(void*) noexcept { return {}; }

}  // namespace spillway::torch
