// SPDX-License-Identifier: Apache-2.0
// What cuda_runtime_api.h wants of this header, which is in a package of its own that PyTorch's CUDA
// wheels do not draw in: marks for NVIDIA's compiler, empty for others.
#pragma once

// NOLINTBEGIN(bugprone-reserved-identifier): the names are NVIDIA's
#define __host__
#define __device__
#define __global__
#define __device_builtin__
#define __cudart_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define CUDARTAPI
#define CUDARTAPI_CDECL
// NOLINTEND(bugprone-reserved-identifier)
