// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_runtime_api.h"

enum CUresult {};
using CUdeviceptr = unsigned long long;
using CUdevice = int;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
