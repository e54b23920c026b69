// SPDX-License-Identifier: Apache-2.0
#include "session/engines.hpp"

#include <atomic>
#include <mutex>
#include <utility>

#include "session/cpu_allocator.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::torch {

namespace {

std::mutex g_making;
auto g_device = runtime::BudgetDevice::kCpu;  // of the engines that are to be made
std::atomic<const Engines*> g_made{nullptr};

runtime::BudgetDevice device_of(const runtime::Settings& settings) {
  using runtime::BudgetDevice;
  if (settings.budget_of) return *settings.budget_of;
  if (settings.emulate_device) return BudgetDevice::kCpu;
  const Engines* const made = g_made;
  if (made != nullptr && made->card() != nullptr) return BudgetDevice::kCuda;
  if (!settings.leaves_device_open() || !cuda::torch_has_a_card()) return BudgetDevice::kCpu;
  if (made == nullptr) return BudgetDevice::kCuda;
  runtime::warn_once(
      "the budget is of the CPU's memory, since Spillway manages that already in this process. To "
      "hold the graphics card's memory, start the program with the budget.");
  return BudgetDevice::kCpu;
}

}  // namespace

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

void DeviceEngine::release_tensor(runtime::StorageRecord& record, c10::StorageImpl& storage) {
  if (record.bound_to.load(std::memory_order_acquire) != &storage) return;
  engine_.replace_owner(record, new StorageOwner(storage, nullptr));
}

const Engines* Engines::made() { return g_made.load(std::memory_order_acquire); }

Engines& Engines::get() {
  static auto* engines = new Engines();
  return *engines;
}

void Engines::make_for(const runtime::Settings& settings) {
  const std::lock_guard lock(g_making);
  const runtime::BudgetDevice device = device_of(settings);
  const auto before = std::exchange(g_device, device);
  try {
    const bool has_card = get().card() != nullptr;
    if (has_card == (device == runtime::BudgetDevice::kCuda)) return;
    throw UserError(has_card
                        ? "Spillway manages a graphics card's memory in this process, and cannot "
                          "hold the CPU's besides: start another process for that"
                        : "Spillway manages the CPU's memory in this process, and cannot hold a "
                          "graphics card's besides: start another process for that");
  } catch (...) {
    g_device = before;
    throw;
  }
}

Engines::Engines() {
  if (g_device == runtime::BudgetDevice::kCuda) {
    card_ = std::make_unique<Card>();
    devices_.push_back(
        std::make_unique<DeviceEngine>(card_->device(), cuda::card_deleter(), card_->make_tiers()));
  } else {
    devices_.push_back(std::make_unique<DeviceEngine>(c10::Device(c10::kCPU), cpu_deleter()));
  }
  g_made = this;
}

Managed Engines::find(c10::StorageImpl& storage) {
  const Engines* const engines = made();
  DeviceEngine* const device = engines != nullptr ? engines->of(storage) : nullptr;
  if (device == nullptr) return {};
  return {.device = device, .record = device->record_of(storage)};
}

Managed Engines::find_bound(c10::StorageImpl& storage) {
  const Managed found = find(storage);
  if (found) found.device->bind(*found.record, storage);
  return found;
}

Managed Engines::find_at(const void* address) {
  const Engines* const engines = made();
  if (engines == nullptr) return {};
  for (const auto& each : engines->devices_) {
    const runtime::DeviceBlock* const block = each->engine().block_at(address);
    if (block != nullptr) return {.device = each.get(), .record = block->record};
  }
  return {};
}

}  // namespace spillway::torch
