// SPDX-License-Identifier: Apache-2.0
#include "session/made_storages.hpp"

#include <cstring>
#include <utility>

#include "session/engines.hpp"

namespace spillway::torch {

void manage_made_storage(c10::StorageImpl& storage, bool keep_contents) {
  c10::Allocator* const stock = c10::GetDefaultCPUAllocator();
  if (storage.allocator() != stock || c10::GetCPUAllocator() == stock) return;
  const c10::DataPtr& old = storage._mutable_data_ptr_no_checks();
  if (old.get() != nullptr && old.get_deleter() != stock->raw_deleter()) return;
  c10::Allocator* const current = c10::GetCPUAllocator();
  if (old.get() != nullptr && storage.nbytes() != 0) {
    c10::DataPtr fresh = current->allocate(storage.nbytes());
    if (keep_contents) std::memcpy(fresh.get(), old.get(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(fresh));
  }
  serve_when_resized(storage);
  static_cast<void>(Engines::find_bound(storage));
}

void serve_when_resized(c10::StorageImpl& storage) {
  if (storage.allocator() == c10::GetDefaultCPUAllocator()) {
    storage.set_allocator(c10::GetCPUAllocator());
  }
}

}  // namespace spillway::torch
