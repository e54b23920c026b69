// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library as far as PyTorch and Spillway ask it: how many cards there are, who
// uses this one and how much of it, and how it is connected: this process alone, to nothing.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstddef>

#include "spillway/runtime/device/nvml_abi.hpp"

using spillway::runtime::nvml::Process;

namespace {

constexpr int kNotSupported = 3;
int device;

/// nvmlGpuFabricInfo_v2_t of NVIDIA's nvml.h.
struct FabricInfo {
  unsigned version;
  std::array<unsigned char, 16> cluster;
  int status;
  unsigned clique;
  unsigned char state;  ///< 0: the card is in no fabric
  unsigned health;
};

/// What the stand-in for CUDA's runtime offers, where it is loaded.
template <class Signature>
Signature* exported(const char* name) {
  return reinterpret_cast<Signature*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace

extern "C" {
#define SPILLWAY_NVML __attribute__((visibility("default"))) int

SPILLWAY_NVML nvmlInit() { return 0; }
SPILLWAY_NVML nvmlInit_v2() { return 0; }
SPILLWAY_NVML nvmlShutdown() { return 0; }
SPILLWAY_NVML nvmlDeviceGetCount_v2(unsigned* count) {
  auto* const cards = exported<unsigned()>("stand_in_cards");
  return *count = cards != nullptr ? cards() : 1, 0;
}
SPILLWAY_NVML nvmlDeviceGetHandleByPciBusId_v2(const char*, void** handle) {
  return *handle = &device, 0;
}
SPILLWAY_NVML nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  return *count = 0, 0;
}
SPILLWAY_NVML nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
  auto* const used = exported<std::size_t()>("stand_in_used_bytes");
  *processes = {static_cast<unsigned>(::getpid()), used != nullptr ? used() : 0, 0, 0};
  return *count = 1, 0;
}
SPILLWAY_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, 0; }
SPILLWAY_NVML nvmlDeviceGetNvLinkRemoteDeviceType() { return kNotSupported; }
SPILLWAY_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2() { return kNotSupported; }
// Cards of compute capability 9.0 answer, and PyTorch 2.13 insists on it for expandable segments.
SPILLWAY_NVML nvmlDeviceGetGpuFabricInfoV(void*, FabricInfo* info) { return info->state = 0, 0; }

#undef SPILLWAY_NVML
}
