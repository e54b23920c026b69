// SPDX-License-Identifier: Apache-2.0
// What must be known of the binary interface of NVIDIA's driver library to call it without its
// header: types, numbers and signatures, and nothing else.
//
// Source: cuda.h and cudaTypedefs.h of the CUDA Toolkit 13.0, in the variants that the library
// hands out for kCudaAbiVersion. The driver keeps them: it gives each caller the variant that the
// caller's version had. runtime/tests/device/cuda_abi_test.cpp compares every line with cuda.h
// where that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::runtime::cuda {

/// CUDA 11.2: from then on all functions below exist; later ones change some (cuEventElapsedTime in
/// 12.8, cuCtxSynchronize in 13.0).
inline constexpr int kCudaAbiVersion = 11020;
/// CU_GET_PROC_ADDRESS_LEGACY_STREAM: stream 0 is the one that all threads share.
inline constexpr std::uint64_t kLegacyStream = 1;

using Result = int;                  // CUresult
using Device = int;                  // CUdevice
using Pointer = unsigned long long;  // NOLINT(google-runtime-int): CUdeviceptr is that
using Handle = unsigned long long;   // NOLINT(google-runtime-int): CUmemGenericAllocationHandle
using Flags = unsigned long long;    // NOLINT(google-runtime-int): of the virtual memory calls
using Context = void*;
using Stream = void*;
using Event = void*;
using Module = void*;
using Function = void*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kErrorOutOfMemory = 2;
inline constexpr Result kErrorDeinitialized = 4;
inline constexpr Result kErrorStubLibrary = 34;
inline constexpr Result kErrorDeviceUnavailable = 46;
inline constexpr Result kErrorNoDevice = 100;
inline constexpr Result kErrorEccUncorrectable = 214;
inline constexpr Result kErrorNvlinkUncorrectable = 220;
inline constexpr Result kErrorContained = 226;
inline constexpr Result kErrorNotReady = 600;
inline constexpr Result kErrorIllegalAddress = 700;
inline constexpr Result kErrorLaunchTimeout = 702;
inline constexpr Result kErrorContextIsDestroyed = 709;
inline constexpr Result kErrorAssert = 710;
inline constexpr Result kErrorHardwareStackError = 714;
inline constexpr Result kErrorIllegalInstruction = 715;
inline constexpr Result kErrorMisalignedAddress = 716;
inline constexpr Result kErrorInvalidAddressSpace = 717;
inline constexpr Result kErrorInvalidPc = 718;
inline constexpr Result kErrorLaunchFailed = 719;
inline constexpr Result kErrorStreamCaptureImplicit = 906;

inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kGranularityMinimum = 0;

struct MemLocation {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;    // the device
};

struct MemAllocationProp {
  int type = 1;               // CU_MEM_ALLOCATION_TYPE_PINNED
  int requested_handles = 0;  // not shared with other processes
  MemLocation location;
  void* win32_handle_metadata = nullptr;
  struct {
    unsigned char compression_type = 0;
    unsigned char gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;  // NOLINT(google-runtime-int): as in the header
    unsigned char reserved[4] = {};
  } alloc_flags;
};

struct MemAccessDesc {
  MemLocation location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};

/// The functions, each by the name that cuGetProcAddress knows: SPILLWAY_CUDA_FUNCTION(member,
/// name, parameters).
#define SPILLWAY_CUDA_FUNCTIONS(SPILLWAY_CUDA_FUNCTION)                                           \
  SPILLWAY_CUDA_FUNCTION(init, cuInit, (unsigned))                                                \
  SPILLWAY_CUDA_FUNCTION(driver_version, cuDriverGetVersion, (int*))                              \
  SPILLWAY_CUDA_FUNCTION(error_name, cuGetErrorName, (Result, const char**))                      \
  SPILLWAY_CUDA_FUNCTION(error_string, cuGetErrorString, (Result, const char**))                  \
  SPILLWAY_CUDA_FUNCTION(device_count, cuDeviceGetCount, (int*))                                  \
  SPILLWAY_CUDA_FUNCTION(device_get, cuDeviceGet, (Device*, int))                                 \
  SPILLWAY_CUDA_FUNCTION(device_name, cuDeviceGetName, (char*, int, Device))                      \
  SPILLWAY_CUDA_FUNCTION(device_attribute, cuDeviceGetAttribute, (int*, int, Device))             \
  SPILLWAY_CUDA_FUNCTION(device_memory, cuDeviceTotalMem, (std::size_t*, Device))                 \
  SPILLWAY_CUDA_FUNCTION(context_retain, cuDevicePrimaryCtxRetain, (Context*, Device))            \
  SPILLWAY_CUDA_FUNCTION(context_release, cuDevicePrimaryCtxRelease, (Device))                    \
  SPILLWAY_CUDA_FUNCTION(context_set, cuCtxSetCurrent, (Context))                                 \
  SPILLWAY_CUDA_FUNCTION(context_get, cuCtxGetCurrent, (Context*))                                \
  SPILLWAY_CUDA_FUNCTION(context_synchronize, cuCtxSynchronize, ())                               \
  SPILLWAY_CUDA_FUNCTION(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))        \
  SPILLWAY_CUDA_FUNCTION(memory_info, cuMemGetInfo, (std::size_t*, std::size_t*))                 \
  SPILLWAY_CUDA_FUNCTION(granularity, cuMemGetAllocationGranularity,                              \
                         (std::size_t*, const MemAllocationProp*, int))                           \
  SPILLWAY_CUDA_FUNCTION(address_reserve, cuMemAddressReserve,                                    \
                         (Pointer*, std::size_t, std::size_t, Pointer, Flags))                    \
  SPILLWAY_CUDA_FUNCTION(address_free, cuMemAddressFree, (Pointer, std::size_t))                  \
  SPILLWAY_CUDA_FUNCTION(mem_create, cuMemCreate,                                                 \
                         (Handle*, std::size_t, const MemAllocationProp*, Flags))                 \
  SPILLWAY_CUDA_FUNCTION(mem_map, cuMemMap, (Pointer, std::size_t, std::size_t, Handle, Flags))   \
  SPILLWAY_CUDA_FUNCTION(mem_set_access, cuMemSetAccess,                                          \
                         (Pointer, std::size_t, const MemAccessDesc*, std::size_t))               \
  SPILLWAY_CUDA_FUNCTION(mem_unmap, cuMemUnmap, (Pointer, std::size_t))                           \
  SPILLWAY_CUDA_FUNCTION(mem_release, cuMemRelease, (Handle))                                     \
  SPILLWAY_CUDA_FUNCTION(host_register, cuMemHostRegister, (void*, std::size_t, unsigned))        \
  SPILLWAY_CUDA_FUNCTION(host_unregister, cuMemHostUnregister, (void*))                           \
  SPILLWAY_CUDA_FUNCTION(stream_create, cuStreamCreateWithPriority, (Stream*, unsigned, int))     \
  SPILLWAY_CUDA_FUNCTION(stream_destroy, cuStreamDestroy, (Stream))                               \
  SPILLWAY_CUDA_FUNCTION(stream_wait, cuStreamWaitEvent, (Stream, Event, unsigned))               \
  SPILLWAY_CUDA_FUNCTION(stream_synchronize, cuStreamSynchronize, (Stream))                       \
  SPILLWAY_CUDA_FUNCTION(stream_is_capturing, cuStreamIsCapturing, (Stream, int*))                \
  SPILLWAY_CUDA_FUNCTION(event_create, cuEventCreate, (Event*, unsigned))                         \
  SPILLWAY_CUDA_FUNCTION(event_destroy, cuEventDestroy, (Event))                                  \
  SPILLWAY_CUDA_FUNCTION(event_record, cuEventRecord, (Event, Stream))                            \
  SPILLWAY_CUDA_FUNCTION(event_query, cuEventQuery, (Event))                                      \
  SPILLWAY_CUDA_FUNCTION(event_synchronize, cuEventSynchronize, (Event))                          \
  SPILLWAY_CUDA_FUNCTION(event_elapsed, cuEventElapsedTime, (float*, Event, Event))               \
  SPILLWAY_CUDA_FUNCTION(copy_out, cuMemcpyDtoHAsync, (void*, Pointer, std::size_t, Stream))      \
  SPILLWAY_CUDA_FUNCTION(copy_in, cuMemcpyHtoDAsync, (Pointer, const void*, std::size_t, Stream)) \
  SPILLWAY_CUDA_FUNCTION(copy_within, cuMemcpyDtoDAsync, (Pointer, Pointer, std::size_t, Stream)) \
  SPILLWAY_CUDA_FUNCTION(fill, cuMemsetD8Async, (Pointer, unsigned char, std::size_t, Stream))

/// Of the check on a card alone, which launches kernels of its own.
#define SPILLWAY_CUDA_LAUNCH_FUNCTIONS(SPILLWAY_CUDA_FUNCTION)                                   \
  SPILLWAY_CUDA_FUNCTION(module_load, cuModuleLoadData, (Module*, const void*))                  \
  SPILLWAY_CUDA_FUNCTION(module_function, cuModuleGetFunction, (Function*, Module, const char*)) \
  SPILLWAY_CUDA_FUNCTION(launch, cuLaunchKernel,                                                 \
                         (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,  \
                          unsigned, Stream, void**, void**))

/// cuGetProcAddress as CUDA 11.3 had it, and as the symbol cuGetProcAddress_v2 is since 12.0.
using GetProcAddress = Result(const char*, void**, int, std::uint64_t);
using GetProcAddressV2 = Result(const char*, void**, int, std::uint64_t, int*);

}  // namespace spillway::runtime::cuda
