// SPDX-License-Identifier: Apache-2.0
// The device itself, always there, and a second where one is asked for; each says that it is of
// compute capability 9.0.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "runtime/answer.hpp"

using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kVersion = 13000;
constexpr int kProcessors = 132;
constexpr int kThreadsPerBlock = 1024;
constexpr int kThreadsPerProcessor = 2048;
constexpr int kSharedPerBlock = 232448;

cudaError_t asked(bool rightly, cudaError_t otherwise = cudaErrorInvalidDevice) {
  return answer(rightly ? cudaSuccess : otherwise);
}

}  // namespace

extern "C" {

int cuGetProcAddress_v2(const char* name, void** found, int version, std::uint64_t flags, int* how);

cudaError_t cudaGetDeviceCount(int* count) { return *count = card_count(), cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { return *device = current_card(), cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (!is_card(device)) return answer(cudaErrorInvalidDevice);
  current_context() = context_of(device);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return *version = kVersion, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = kVersion, cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return answer(stand_in_card().synchronize()); }

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  std::snprintf(id, static_cast<std::size_t>(length), "0000:00:%02x.0", device);
  return asked(is_card(device));
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  *can = second_card() == SecondCard::kPeer && from != to ? 1 : 0;
  return asked(is_card(from) && is_card(to));
}
// What is allocated may be reached at once; what is mapped, as cuMemSetAccess says.
cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  return asked(second_card() == SecondCard::kPeer && is_card(to));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "%s",
                stand_in_card().facts().name.c_str());
  properties->totalGlobalMem = stand_in_card().facts().memory.count;
  properties->major = 9;
  properties->warpSize = 32;
  properties->multiProcessorCount = kProcessors;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsPerMultiProcessor = kThreadsPerProcessor;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = kThreadsPerBlock;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerBlockOptin = kSharedPerBlock;
  properties->sharedMemPerMultiprocessor = kSharedPerBlock + 1024;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 50 << 20;
  properties->unifiedAddressing = 1;
  return asked(is_card(device));
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  static const auto* const values = new std::map<cudaDeviceAttr, int>{
      {cudaDevAttrComputeCapabilityMajor, 9},
      {cudaDevAttrWarpSize, 32},
      {cudaDevAttrMultiProcessorCount, kProcessors},
      {cudaDevAttrMaxThreadsPerBlock, kThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, kThreadsPerProcessor},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, kSharedPerBlock},
      {cudaDevAttrMaxBlocksPerMultiprocessor, 32}};
  const auto found = values->find(attribute);
  *value = found == values->end() ? 0 : found->second;
  return asked(is_card(device));
}

/// A function that is not modelled is not there, as in an older driver.
cudaError_t cudaGetDriverEntryPointByVersion(
    const char* symbol, void** function, unsigned version,
    unsigned long long flags,  // NOLINT(google-runtime-int)
    cudaDriverEntryPointQueryResult* result) {
  const int code = cuGetProcAddress_v2(symbol, function, static_cast<int>(version), flags, nullptr);
  if (code != 0) *function = nullptr;
  if (result != nullptr) {
    *result = code == 0 ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }
}
