// SPDX-License-Identifier: Apache-2.0
// Types and empty functions by CUDA's names, so that torch's c10/cuda/CUDACachingAllocator.h can be
// read where no CUDA toolkit is. Nothing here is called or ships: of the sources that see it, one takes
// the addresses of virtual functions (wheel_slots.cpp), one calls what libc10_cuda exports
// (wheel_growth.cpp).
#pragma once

#include <cstddef>

using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphNode_t = struct CUgraphNode_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
using cudaUserObject_t = struct CUuserObject_st*;
using cudaHostFn_t = void (*)(void*);

enum cudaError_t { cudaSuccess = 0, cudaErrorNotReady = 600 };
using cudaError = cudaError_t;
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated
};
struct cudaDeviceProp {};
enum cudaMemcpyKind {};
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum { cudaUserObjectNoDestructorSync = 1, cudaGraphUserObjectMove = 1 };

template <class... Arguments>
inline cudaError_t spillway_no_cuda(Arguments&&...) {
  return cudaSuccess;
}
#define cudaDeviceGetStreamPriorityRange spillway_no_cuda
#define cudaGetErrorString(error) ""
#define cudaGetLastError spillway_no_cuda
#define cudaGraphRetainUserObject spillway_no_cuda
#define cudaMemGetInfo spillway_no_cuda
#define cudaMemcpyAsync spillway_no_cuda
#define cudaStreamGetCaptureInfo spillway_no_cuda
#define cudaStreamGetCaptureInfo_v2 spillway_no_cuda
#define cudaStreamGetPriority spillway_no_cuda
#define cudaStreamIsCapturing spillway_no_cuda
#define cudaStreamQuery spillway_no_cuda
#define cudaStreamSynchronize spillway_no_cuda
#define cudaThreadExchangeStreamCaptureMode spillway_no_cuda
#define cudaUserObjectCreate spillway_no_cuda
#define cudaUserObjectRelease spillway_no_cuda
