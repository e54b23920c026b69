// SPDX-License-Identifier: Apache-2.0
// What PyTorch asks of the driver beyond what Spillway does (stand_in_cuda.cpp), exported by name:
// cuGetProcAddress finds it there. PyTorch starts only where all that it names as required is
// found, whether it uses it or not.
#include <cstdio>
#include <cstring>
#include <vector>

#include "runtime/answer.hpp"
#include "spillway/runtime/device/cuda_abi.hpp"

using namespace spillway::testing;  // NOLINT(google-build-using-namespace)
namespace cuda = spillway::runtime::cuda;

namespace {

constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeDeviceOrdinal = 9;

}  // namespace

extern "C" {

cuda::Result cuCtxGetCurrent(cuda::Context* context) {
  return *context = reinterpret_cast<cuda::Context>(current_context()), 0;
}
cuda::Result cuDevicePrimaryCtxGetState(cuda::Device, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
cuda::Result cuDeviceGetPCIBusId(char* bus, int bytes, cuda::Device) {
  std::snprintf(bus, static_cast<std::size_t>(bytes), "0000:00:00.0");
  return 0;
}
cuda::Result cuPointerGetAttribute(void* value, int attribute, cuda::Pointer pointer) {
  if (!stand_in_card().is_device(spillway::runtime::DeviceAddress{pointer})) return 1;
  if (attribute != kAttributeMemoryType && attribute != kAttributeDeviceOrdinal) return 1;
  const int found = attribute == kAttributeMemoryType ? 2 : 0;
  std::memcpy(value, &found, sizeof found);
  return 0;
}
cuda::Result cuMemsetD32Async(cuda::Pointer pointer, unsigned value, std::size_t count,
                              cuda::Stream stream) {
  ThreadDevice& card = stand_in_card();
  const spillway::runtime::DeviceAddress address{pointer};
  const auto fill = [value, count](auto pointers) {
    std::byte* to = pointers[0];
    for (std::size_t i = 0; i < count; ++i, to += sizeof value) {
      std::memcpy(to, &value, sizeof value);
    }
  };
  return card
      .launch(stream_of(static_cast<cudaStream_t>(stream)), {{address, {count * sizeof value}}},
              fill)
      .code;
}

#define SPILLWAY_REQUIRED(name) \
  cuda::Result name();          \
  cuda::Result name() { unmodelled(#name); }
SPILLWAY_REQUIRED(cuMemGetAddressRange)
SPILLWAY_REQUIRED(cuMemExportToShareableHandle)
SPILLWAY_REQUIRED(cuMemImportFromShareableHandle)
SPILLWAY_REQUIRED(cuMemRetainAllocationHandle)
SPILLWAY_REQUIRED(cuMemGetAllocationPropertiesFromHandle)
SPILLWAY_REQUIRED(cuStreamWriteValue32)
#undef SPILLWAY_REQUIRED
}
