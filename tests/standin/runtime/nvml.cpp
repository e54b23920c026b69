// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library as far as PyTorch asks it: how many cards there are, and when memory
// runs out or segments are made, who else uses this one and how it is connected: nobody, to
// nothing.
#include <cstddef>

namespace {

constexpr int kNotSupported = 3;
int device;

}  // namespace

extern "C" {
#define SPILLWAY_NVML __attribute__((visibility("default"))) int

SPILLWAY_NVML nvmlInit() { return 0; }
SPILLWAY_NVML nvmlInit_v2() { return 0; }
SPILLWAY_NVML nvmlShutdown() { return 0; }
SPILLWAY_NVML nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, 0; }
SPILLWAY_NVML nvmlDeviceGetHandleByPciBusId_v2(const char*, void** handle) {
  return *handle = &device, 0;
}
SPILLWAY_NVML nvmlDeviceGetComputeRunningProcesses(void*, unsigned* count, void*) {
  return *count = 0, 0;
}
SPILLWAY_NVML nvmlSystemGetCudaDriverVersion_v2(int* version) { return *version = 13000, 0; }
SPILLWAY_NVML nvmlDeviceGetNvLinkRemoteDeviceType() { return kNotSupported; }
SPILLWAY_NVML nvmlDeviceGetNvLinkRemotePciInfo_v2() { return kNotSupported; }
SPILLWAY_NVML nvmlDeviceGetGpuFabricInfoV() { return kNotSupported; }

#undef SPILLWAY_NVML
}
