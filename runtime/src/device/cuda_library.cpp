// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/cuda_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include "spillway/base/error.hpp"

namespace spillway::runtime {
namespace {

constexpr const char* kRemedy =
    "Install NVIDIA's driver (in a container: start it with access to the card), or hold the CPU's "
    "memory: SPILLWAY_BUDGET=cpu:8GiB.";

}  // namespace

CudaLibrary::CudaLibrary(const std::string& file)
    : file_(file), library_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (library_ == nullptr) {
    throw UserError(
        fmt::format("There is no driver for a graphics card: {}. {}", dlerror(), kRemedy));
  }
  get_v2_ = reinterpret_cast<cuda::GetProcAddressV2*>(dlsym(library_, "cuGetProcAddress_v2"));
  get_ = reinterpret_cast<cuda::GetProcAddress*>(dlsym(library_, "cuGetProcAddress"));
  if (get_v2_ == nullptr && get_ == nullptr) {
    throw UserError(
        fmt::format("The driver library {} has no cuGetProcAddress: it is older than CUDA 11.3. "
                    "Update NVIDIA's "
                    "driver.",
                    file_));
  }
  resolve_all();
  start();
}

void* CudaLibrary::function(const char* name) const {
  void* found = nullptr;
  int how = 0;
  const cuda::Result code =
      get_v2_ != nullptr ? get_v2_(name, &found, cuda::kCudaAbiVersion, cuda::kLegacyStream, &how)
                         : get_(name, &found, cuda::kCudaAbiVersion, cuda::kLegacyStream);
  if (code != cuda::kSuccess || found == nullptr) {
    throw UserError(fmt::format(
        "The driver library {} does not know {} of CUDA {}.{} (error {}). Update NVIDIA's driver.",
        file_, name, cuda::kCudaAbiVersion / 1000, cuda::kCudaAbiVersion % 1000 / 10, code));
  }
  return found;
}

void CudaLibrary::resolve_all() {
#define SPILLWAY_CUDA_RESOLVE(member, name, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(function(#name));
  SPILLWAY_CUDA_FUNCTIONS(SPILLWAY_CUDA_RESOLVE)
#undef SPILLWAY_CUDA_RESOLVE
}

void CudaLibrary::start() {
  const cuda::Result started = functions_.init(0);
  if (started != cuda::kSuccess) {
    throw UserError(fmt::format("The driver of the graphics card does not start: {}. {}",
                                text(started), kRemedy));
  }
  const cuda::Result counted = functions_.device_count(&device_count_);
  if (counted != cuda::kSuccess || device_count_ == 0) {
    throw UserError(fmt::format("The driver shows no graphics card: {}. See CUDA_VISIBLE_DEVICES.",
                                text(counted)));
  }
}

CudaCard CudaLibrary::card(int ordinal) const {
  CudaCard card;
  cuda::Device device = 0;
  char name[256] = {};
  int maps = 0;
  if (functions_.device_get(&device, ordinal) != cuda::kSuccess) return card;
  if (functions_.device_name(name, sizeof name, device) == cuda::kSuccess) card.name = name;
  if (functions_.device_attribute(&maps, cuda::kAttributeVirtualMemory, device) == cuda::kSuccess) {
    card.maps_memory = maps != 0;
  }
  return card;
}

// A default stream that waits for a capturing one is told by an error. Nothing may be asked of it.
bool CudaLibrary::is_capturing(cuda::Stream stream) const {
  int status = 0;
  const cuda::Result code = functions_.stream_is_capturing(stream, &status);
  return code == cuda::kErrorStreamCaptureImplicit || (code == cuda::kSuccess && status != 0);
}

std::string CudaLibrary::text(cuda::Result code) const {
  const char* name = nullptr;
  const char* meaning = nullptr;
  functions_.error_name(code, &name);
  functions_.error_string(code, &meaning);
  return fmt::format("{} ({}): {}", name != nullptr ? name : "unknown error", code,
                     meaning != nullptr ? meaning : "the driver has no words for it");
}

bool a_card_is_seen(const std::string& file) {
  try {
    return CudaLibrary(file).device_count() > 0;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace spillway::runtime
