// SPDX-License-Identifier: Apache-2.0
// What is used of NVIDIA's management library, without its header (NVML API Reference).
#pragma once

namespace spillway::runtime::nvml {

using Result = int;
inline constexpr Result kSuccess = 0;                       // NVML_SUCCESS
inline constexpr Result kInsufficientSize = 7;              // NVML_ERROR_INSUFFICIENT_SIZE
inline constexpr unsigned long long kNotAvailable = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

/// nvmlProcessInfo_t, of the second and third version of the functions that list processes.
struct Process {
  unsigned number;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace spillway::runtime::nvml
