// SPDX-License-Identifier: Apache-2.0
// cuda_abi.hpp against NVIDIA's own header: nothing runs here, what is wrong does not compile.
// Built where the header is installed.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "spillway/runtime/device/cuda_abi.hpp"

namespace spillway::runtime::cuda {
namespace {

/// The same for a caller: pointers, and numbers of the same size and kind.
template <typename Ours, typename Theirs>
constexpr bool kSameParameter = std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
                                sizeof(Ours) == sizeof(Theirs);

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R, typename... Ours, typename Q, typename... Theirs>
struct SameCall<R (*)(Ours...), Q (*)(Theirs...)> {
  static constexpr bool kSameCount = sizeof...(Ours) == sizeof...(Theirs);
  template <bool kCounted>
  static constexpr bool all() {
    if constexpr (kCounted) {
      return (kSameParameter<Ours, Theirs> && ...);
    } else {
      return false;
    }
  }
  static constexpr bool value = kSameParameter<R, Q> && all<kSameCount>();
};

// The variant of each function that the library hands out for kCudaAbiVersion: the newest that is
// not younger.
// NOLINTBEGIN(readability-identifier-naming): named after the functions, for SAME below
using Theirs_cuInit = PFN_cuInit_v2000;
using Theirs_cuDriverGetVersion = PFN_cuDriverGetVersion_v2020;
using Theirs_cuGetErrorName = PFN_cuGetErrorName_v6000;
using Theirs_cuGetErrorString = PFN_cuGetErrorString_v6000;
using Theirs_cuDeviceGetCount = PFN_cuDeviceGetCount_v2000;
using Theirs_cuDeviceGet = PFN_cuDeviceGet_v2000;
using Theirs_cuDeviceGetName = PFN_cuDeviceGetName_v2000;
using Theirs_cuDeviceGetAttribute = PFN_cuDeviceGetAttribute_v2000;
using Theirs_cuDeviceTotalMem = PFN_cuDeviceTotalMem_v3020;
using Theirs_cuDevicePrimaryCtxRetain = PFN_cuDevicePrimaryCtxRetain_v7000;
using Theirs_cuDevicePrimaryCtxRelease = PFN_cuDevicePrimaryCtxRelease_v11000;
using Theirs_cuCtxSetCurrent = PFN_cuCtxSetCurrent_v4000;
using Theirs_cuCtxGetCurrent = PFN_cuCtxGetCurrent_v4000;
using Theirs_cuCtxSynchronize = PFN_cuCtxSynchronize_v2000;
using Theirs_cuThreadExchangeStreamCaptureMode = PFN_cuThreadExchangeStreamCaptureMode_v10010;
using Theirs_cuMemGetInfo = PFN_cuMemGetInfo_v3020;
using Theirs_cuMemGetAllocationGranularity = PFN_cuMemGetAllocationGranularity_v10020;
using Theirs_cuMemAddressReserve = PFN_cuMemAddressReserve_v10020;
using Theirs_cuMemAddressFree = PFN_cuMemAddressFree_v10020;
using Theirs_cuMemCreate = PFN_cuMemCreate_v10020;
using Theirs_cuMemMap = PFN_cuMemMap_v10020;
using Theirs_cuMemSetAccess = PFN_cuMemSetAccess_v10020;
using Theirs_cuMemUnmap = PFN_cuMemUnmap_v10020;
using Theirs_cuMemRelease = PFN_cuMemRelease_v10020;
using Theirs_cuMemHostRegister = PFN_cuMemHostRegister_v6050;
using Theirs_cuMemHostUnregister = PFN_cuMemHostUnregister_v4000;
using Theirs_cuStreamCreateWithPriority = PFN_cuStreamCreateWithPriority_v5050;
using Theirs_cuStreamDestroy = PFN_cuStreamDestroy_v4000;
using Theirs_cuStreamWaitEvent = PFN_cuStreamWaitEvent_v3020;
using Theirs_cuStreamSynchronize = PFN_cuStreamSynchronize_v2000;
using Theirs_cuStreamIsCapturing = PFN_cuStreamIsCapturing_v10000;
using Theirs_cuEventCreate = PFN_cuEventCreate_v2000;
using Theirs_cuEventDestroy = PFN_cuEventDestroy_v4000;
using Theirs_cuEventRecord = PFN_cuEventRecord_v2000;
using Theirs_cuEventQuery = PFN_cuEventQuery_v2000;
using Theirs_cuEventSynchronize = PFN_cuEventSynchronize_v2000;
using Theirs_cuEventElapsedTime = PFN_cuEventElapsedTime_v2000;
using Theirs_cuMemcpyDtoHAsync = PFN_cuMemcpyDtoHAsync_v3020;
using Theirs_cuMemcpyHtoDAsync = PFN_cuMemcpyHtoDAsync_v3020;
using Theirs_cuMemcpyDtoDAsync = PFN_cuMemcpyDtoDAsync_v3020;
using Theirs_cuMemsetD8Async = PFN_cuMemsetD8Async_v3020;
using Theirs_cuModuleLoadData = PFN_cuModuleLoadData_v2000;
using Theirs_cuModuleGetFunction = PFN_cuModuleGetFunction_v2000;
using Theirs_cuLaunchKernel = PFN_cuLaunchKernel_v4000;

// NOLINTEND(readability-identifier-naming)

// NOLINTBEGIN(bugprone-macro-parentheses): of a type, which has none
#define SAME(member, name, parameters) \
  static_assert(SameCall<Result(*) parameters, Theirs_##name>::value, #name);
// NOLINTEND(bugprone-macro-parentheses)
SPILLWAY_CUDA_FUNCTIONS(SAME)
SPILLWAY_CUDA_LAUNCH_FUNCTIONS(SAME)
#undef SAME
static_assert(SameCall<GetProcAddress*, PFN_cuGetProcAddress_v11030>::value);
static_assert(SameCall<GetProcAddressV2*, PFN_cuGetProcAddress_v12000>::value);

// Structures: the same size, and each member at the same place with the same value.
static_assert(sizeof(MemLocation) == sizeof(CUmemLocation));
static_assert(offsetof(MemLocation, type) == offsetof(CUmemLocation, type));
static_assert(offsetof(MemLocation, id) == offsetof(CUmemLocation, id));
static_assert(MemLocation{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(sizeof(MemAccessDesc) == sizeof(CUmemAccessDesc));
static_assert(offsetof(MemAccessDesc, location) == offsetof(CUmemAccessDesc, location));
static_assert(offsetof(MemAccessDesc, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(MemAccessDesc{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(sizeof(MemAllocationProp) == sizeof(CUmemAllocationProp));
static_assert(offsetof(MemAllocationProp, type) == offsetof(CUmemAllocationProp, type));
static_assert(offsetof(MemAllocationProp, requested_handles) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(MemAllocationProp, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(MemAllocationProp, win32_handle_metadata) ==
              offsetof(CUmemAllocationProp, win32HandleMetaData));
static_assert(offsetof(MemAllocationProp, alloc_flags) ==
              offsetof(CUmemAllocationProp, allocFlags));
static_assert(MemAllocationProp{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(MemAllocationProp{}.requested_handles == CU_MEM_HANDLE_TYPE_NONE);

static_assert(kLegacyStream == CU_GET_PROC_ADDRESS_LEGACY_STREAM);
static_assert(kSuccess == CUDA_SUCCESS);
static_assert(kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(kErrorDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(kErrorStreamCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kErrorStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(kErrorDeviceUnavailable == CUDA_ERROR_DEVICE_UNAVAILABLE);
static_assert(kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(kErrorEccUncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(kErrorNvlinkUncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE);
static_assert(kErrorContained == CUDA_ERROR_CONTAINED);
static_assert(kErrorNotReady == CUDA_ERROR_NOT_READY);
static_assert(kErrorIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kErrorLaunchTimeout == CUDA_ERROR_LAUNCH_TIMEOUT);
static_assert(kErrorContextIsDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(kErrorAssert == CUDA_ERROR_ASSERT);
static_assert(kErrorHardwareStackError == CUDA_ERROR_HARDWARE_STACK_ERROR);
static_assert(kErrorIllegalInstruction == CUDA_ERROR_ILLEGAL_INSTRUCTION);
static_assert(kErrorMisalignedAddress == CUDA_ERROR_MISALIGNED_ADDRESS);
static_assert(kErrorInvalidAddressSpace == CUDA_ERROR_INVALID_ADDRESS_SPACE);
static_assert(kErrorInvalidPc == CUDA_ERROR_INVALID_PC);
static_assert(kErrorLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(kAttributeVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kEventBlockingSync == CU_EVENT_BLOCKING_SYNC);
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);

TEST(CudaAbiTest, IsThatOfTheHeader) { SUCCEED() << "else this would not have been compiled"; }

}  // namespace
}  // namespace spillway::runtime::cuda
