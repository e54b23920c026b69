// SPDX-License-Identifier: Apache-2.0
#include "session/engines.hpp"

#include "session/cpu_allocator.hpp"

namespace spillway::torch {

runtime::StorageRecord* DeviceEngine::record_of(c10::StorageImpl& storage) const {
  const c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  return engine_.find(data.get() != nullptr ? data.get() : data.get_context());
}

// A bound handle is compared, never followed: another thread may be freeing the handle.
void DeviceEngine::bind(runtime::StorageRecord& record, c10::StorageImpl& storage,
                        c10::TensorImpl* shown_by) {
  if (record.bound_to.load(std::memory_order_acquire) == &storage) return;
  if (storage._mutable_data_ptr_no_checks().get_deleter() != deleter_) return;
  engine_.bind(record, new StorageOwner(storage, shown_by), &storage);
}

void DeviceEngine::forget_tensor(runtime::StorageRecord& record, c10::StorageImpl& storage) {
  if (record.bound_to.load(std::memory_order_acquire) != &storage) return;
  engine_.replace_owner(record, new StorageOwner(storage, nullptr));
}

Engines& Engines::get() {
  static auto* engines = new Engines();
  return *engines;
}

Engines::Engines() {
  devices_.push_back(std::make_unique<DeviceEngine>(c10::Device(c10::kCPU), cpu_deleter()));
}

Managed Engines::find(c10::StorageImpl& storage) const {
  DeviceEngine* const device = of(storage);
  if (device == nullptr) return {};
  return {.device = device, .record = device->record_of(storage)};
}

Managed Engines::find_bound(c10::StorageImpl& storage) const {
  const Managed found = find(storage);
  if (found) found.device->bind(*found.record, storage);
  return found;
}

Managed Engines::find_at(const void* address) const {
  for (const auto& each : devices_) {
    const runtime::DeviceBlock* const block = each->engine().block_at(address);
    if (block != nullptr) return {.device = each.get(), .record = block->record};
  }
  return {};
}

}  // namespace spillway::torch
