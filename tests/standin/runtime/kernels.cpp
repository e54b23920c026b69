// SPDX-License-Identifier: Apache-2.0
// Kernels that were compiled for a card: their registration is read for the names alone, and a
// launch ends the process with the name, since nothing here could run it.
// STAND_IN_KERNELS=skip: a launch does nothing, for programs whose values do not matter.
#include <cxxabi.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/answer.hpp"

namespace spillway::testing {
namespace {

class KernelNames {
 public:
  void put(const void* function, const char* name) {
    const std::lock_guard lock(mutex_);
    names_[function] = name;
  }
  std::string of(const void* function) {
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(function);
    if (found == names_.end()) return "a kernel without a name";
    int status = 0;
    char* const plain = abi::__cxa_demangle(found->second, nullptr, nullptr, &status);
    std::string name = status == 0 ? plain : found->second;
    std::free(plain);  // NOLINT(cppcoreguidelines-no-malloc): by the interface
    return name;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, const char*> names_;
};

KernelNames& kernel_names() {
  static auto* const kNames = new KernelNames;
  return *kNames;
}

cudaError_t launched(const void* function) {
  static const char* const kWanted = std::getenv("STAND_IN_KERNELS");
  if (kWanted != nullptr && std::string_view(kWanted) == "skip") return cudaSuccess;
  unmodelled("the launch of a kernel", kernel_names().of(function).c_str());
}

/// What nvcc's code hands from a launch's <<<>>> to the function that is called.
struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
thread_local CallConfiguration call_configuration;

}  // namespace
}  // namespace spillway::testing

using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

// NOLINTBEGIN(bugprone-reserved-identifier): the names are NVIDIA's
extern "C" {

void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  kernel_names().put(function, name);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     struct CUstream_st* stream) {
  call_configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = call_configuration.grid;
  *block = call_configuration.block;
  *shared = call_configuration.shared;
  *static_cast<void**>(stream) = call_configuration.stream;
  return cudaSuccess;
}

/// The function stands for its kernel.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return launched(kernel);
}
cudaError_t cudaLaunchKernel(const void* function, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return launched(function);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void**) {
  return launched(function);
}

// Asked before launches.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*, int,
                                                                   std::size_t, unsigned) {
  return *blocks = 4, cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int size, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, size, shared, 0);
}
}
// NOLINTEND(bugprone-reserved-identifier)
