// SPDX-License-Identifier: Apache-2.0
// NVIDIA's management library as far as ProcessMemory asks it. STAND_IN_NVML: pairs of a process's
// number, where 0 is the asking process's, and its bytes, such as "0 4096 17 1000"; or "fails".
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>

#include "spillway/runtime/device/nvml_abi.hpp"

using spillway::runtime::nvml::Process;

namespace {

int card;

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the library's names
extern "C" {
#define STAND_IN_NVML __attribute__((visibility("default"))) int

STAND_IN_NVML nvmlInit_v2() { return 0; }
STAND_IN_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** handle) {
  *handle = &card;
  return std::strcmp(bus, "0000:00:00.0") == 0 ? 0 : 6;
}
STAND_IN_NVML nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count,
                                                      Process* processes) {
  const char* const listed = std::getenv("STAND_IN_NVML");
  if (handle != &card || listed == nullptr || std::strcmp(listed, "fails") == 0) return 999;
  std::istringstream text(listed);
  const unsigned room = *count;
  Process next{};
  for (*count = 0; text >> next.number >> next.bytes; ++*count) {
    if (next.number == 0) next.number = static_cast<unsigned>(::getpid());
    if (*count < room) processes[*count] = next;
  }
  return *count <= room ? 0 : spillway::runtime::nvml::kInsufficientSize;
}

#undef STAND_IN_NVML
}
// NOLINTEND(readability-identifier-naming)
