// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/process_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>

namespace spillway::runtime {

namespace {

constexpr std::size_t kMostProcesses = 256;  // more than share a card

template <class Function>
Function* function(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

}  // namespace

ProcessMemory::ProcessMemory(const std::string& bus, const std::string& file)
    : library_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) return;
  auto* const init = function<nvml::Result()>(library_, "nvmlInit_v2");
  auto* const find =
      function<nvml::Result(const char*, void**)>(library_, "nvmlDeviceGetHandleByPciBusId_v2");
  // Drivers before 510 have the second version alone, whose processes look the same.
  auto* list = function<List>(library_, "nvmlDeviceGetComputeRunningProcesses_v3");
  if (list == nullptr) {
    list = function<List>(library_, "nvmlDeviceGetComputeRunningProcesses_v2");
  }
  if (init == nullptr || find == nullptr || list == nullptr || init() != nvml::kSuccess) return;
  if (find(bus.c_str(), &card_) == nvml::kSuccess) list_ = list;
}

// The library is not shut down: others of the process use it, too.
ProcessMemory::~ProcessMemory() {
  if (library_ != nullptr) ::dlclose(library_);
}

std::optional<Bytes> ProcessMemory::read() const {
  if (list_ == nullptr) return std::nullopt;
  std::array<nvml::Process, kMostProcesses> found{};
  unsigned count = found.size();
  if (list_(card_, &count, found.data()) != nvml::kSuccess) return std::nullopt;
  const std::span<const nvml::Process> all(found.data(), count);
  const auto own = static_cast<unsigned>(::getpid());
  auto mine = std::ranges::find(all, own, &nvml::Process::number);
  if (mine == all.end() && all.size() == 1) mine = all.begin();
  if (mine == all.end() || mine->bytes == nvml::kNotAvailable) return std::nullopt;
  return Bytes{mine->bytes};
}

}  // namespace spillway::runtime
