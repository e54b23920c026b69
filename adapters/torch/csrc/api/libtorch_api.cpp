// SPDX-License-Identifier: Apache-2.0
// The interface for libtorch programs. They see spillway_torch.hpp alone, so that nothing of the
// layers below becomes part of what is installed.
#include <string>
#include <vector>

#include "session/watch.hpp"
#include "spillway/base/error.hpp"
#include "spillway/spillway_torch.hpp"

// c_api.cpp
extern "C" {
int spillway_check_torch(int major, int minor);
void spillway_release(void* storage_impl);
}

namespace spillway::torch {

namespace {

std::string variable_of(const std::string& name) {
  std::string variable = "SPILLWAY_" + name;
  for (char& letter : variable) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return variable;
}

c10::StorageImpl* storage_of(const at::Tensor& tensor) {
  return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

void enable(const Options& options, int torch_major, int torch_minor) {
  if (spillway_check_torch(torch_major, torch_minor) != 0) {
    throw UserError("this program was compiled with torch " + std::to_string(torch_major) + "." +
                    std::to_string(torch_minor) +
                    ", and its libspillway_torch is for torch " SPILLWAY_TORCH_MINOR
                    " only: install Spillway in the environment of the program's torch");
  }
  std::vector<runtime::NameValue> variables;
  for (const auto& [name, value] : options) variables.emplace_back(variable_of(name), value);
  Watch::start(runtime::settings_from_environment(variables));
}

void disable() {
  if (Engines::made() != nullptr) Watch::get().stop();
}

void keep(const at::Tensor& tensor) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (storage == nullptr) return;
  const Managed found = Engines::find_bound(*storage);
  if (found && !found.engine().keep(*found.record)) {
    throw UserError(runtime::Engine::last_failure());
  }
}

void release(const at::Tensor& tensor) {
  c10::StorageImpl* storage = storage_of(tensor);
  if (storage != nullptr) spillway_release(storage);
}

Statistics statistics() {
  if (Engines::made() == nullptr) return {};
  const runtime::Statistics now = main_engine().statistics();
  return {.budget_bytes = now.budget.count,
          .device_bytes = now.device.count,
          .peak_device_bytes = now.peak_device.count,
          .disk_bytes = now.disk.count,
          .evicted_bytes = now.moves.evicted.count,
          .clean_evicted_bytes = now.moves.clean_evicted.count,
          .fetched_bytes = now.moves.fetched.count,
          .overshoot_bytes = now.overshoot.count,
          .stall_ns = now.stall_ns};
}

}  // namespace spillway::torch
