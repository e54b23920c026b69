// SPDX-License-Identifier: Apache-2.0
#include "session/storage_owner.hpp"

#include "session/access_flag.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "threads/interpreter_lock.hpp"

namespace spillway::torch {

namespace {

template <class T>
c10::weak_intrusive_ptr<T> weak_reference(T& object) {
  c10::raw::weak_intrusive_ptr::incref(&object);
  return c10::weak_intrusive_ptr<T>::reclaim(&object);
}

// Minor versions name the question differently.
template <class Slot>
bool has_python_object(const Slot& slot) {
  if constexpr (requires { slot.load_pyobj(); }) {
    return slot.load_pyobj() != nullptr;
  } else if constexpr (requires { slot.check_pyobj().has_value(); }) {
    return slot.check_pyobj().value_or(nullptr) != nullptr;
  } else {
    return false;
  }
}

}  // namespace

StorageOwner::StorageOwner(c10::StorageImpl& described, c10::TensorImpl* shown_by)
    : impl(&described), storage(weak_reference(described)), maker(shown_by) {
  if (shown_by != nullptr) made.emplace(weak_reference(*shown_by));
}

bool TorchFramework::may_evict(void* owner, const runtime::StorageRecord& record) noexcept {
  auto& handle = *static_cast<StorageOwner*>(owner);
  if (handle.storage.expired()) return false;
  // The memory may have moved to another storage (swap_tensors), or become copy-on-write.
  const c10::DataPtr& data = handle.impl->_mutable_data_ptr_no_checks();
  return data.get() == record.block->address && data.get_deleter() == deleter_;
}

void TorchFramework::revoke(void* owner, const runtime::StorageRecord& record,
                            const std::string& reason, runtime::Refusal refusal) noexcept {
  auto& handle = *static_cast<StorageOwner*>(owner);
  if (refusal == runtime::Refusal::kAll) {
    refuse_access(*handle.impl, reason);
  } else {
    refuse_writing(*handle.impl);
  }
  // Replacing the pointer of a storage that another thread is destroying would race with that, so
  // the emulation keeps pointers where several threads run ops. The context stays: whoever
  // destroys an evicted storage frees its block as ever.
  if (!null_pointers_.load() || handle.storage.expired() || runtime::framed_threads() != 1) return;
  static_cast<void>(handle.impl->_mutable_data_ptr_no_checks().release_context());
  handle.impl->set_data_ptr_noswap({nullptr, record.block->address, deleter_, device_});
}

void TorchFramework::grant(void* owner, const runtime::StorageRecord& record) noexcept {
  auto& handle = *static_cast<StorageOwner*>(owner);
  c10::DataPtr& data = handle.impl->_mutable_data_ptr_no_checks();
  if (data.get() == nullptr && data.get_context() == record.block->address) {
    static_cast<void>(data.release_context());
    handle.impl->set_data_ptr_noswap(
        {record.block->address, record.block->address, deleter_, device_});
  }
  allow_access(*handle.impl);
}

// The storage must not die meanwhile on another thread: so it is held. Taking and letting go of a
// storage that has an object of Python may take the interpreter's lock; such a one stays. Where one
// dies here, its memory is freed, which takes no lock.
bool TorchFramework::move(void* owner, const runtime::StorageRecord& record,
                          std::byte* to) noexcept {
  auto& handle = *static_cast<StorageOwner*>(owner);
  if (handle.storage.expired() || has_python_object(*handle.impl->pyobj_slot())) return false;
  const c10::intrusive_ptr<c10::StorageImpl> held = handle.storage.lock();
  if (!held) return false;
  c10::DataPtr& data = held->_mutable_data_ptr_no_checks();
  if (data.get() != record.block->address || data.get_deleter() != deleter_) return false;
  static_cast<void>(data.release_context());
  held->set_data_ptr_noswap({to, to, deleter_, device_});
  return true;
}

// C++ code that fills a fresh tensor has not shown it to Python yet: the object is made when it is
// returned there. A tensor that died was not returned as far as is known.
bool TorchFramework::handed_over(void* owner) noexcept {
  const auto& handle = *static_cast<StorageOwner*>(owner);
  return handle.made && !handle.made->expired() && has_python_object(*handle.maker->pyobj_slot());
}

void TorchFramework::release(void* owner) noexcept { delete static_cast<StorageOwner*>(owner); }

void* TorchFramework::let_others_run() { return let_go_of_interpreter(); }

void TorchFramework::run_again(void* held) { take_interpreter_again(held); }

}  // namespace spillway::torch
