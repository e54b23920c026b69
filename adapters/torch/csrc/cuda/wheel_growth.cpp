// SPDX-License-Identifier: Apache-2.0
#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>

#include <memory>

#include "cuda/pool_growth.hpp"

namespace spillway::torch::cuda {

namespace {

// libtorch_cuda is not linked, and a build without it has no such function.
constexpr const char* kRegistry = "_ZN3c1031FreeCudaMemoryCallbacksRegistryB5cxx11Ev";

std::atomic<bool>* g_grows = nullptr;

// torch makes one each time.
class Notice final : public c10::FreeMemoryCallback {
 public:
  bool Execute() override {
    g_grows->store(true);
    return false;  // nothing became free
  }
};

}  // namespace

bool tell_growth(std::atomic<bool>& grows) {
  void* const library = ::dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  const auto registry =
      reinterpret_cast<decltype(&c10::FreeCudaMemoryCallbacksRegistry)>(dlsym(library, kRegistry));
  if (registry == nullptr) return false;
  g_grows = &grows;
  registry()->Register("spillway", [] { return std::make_unique<Notice>(); });
  return true;
}

}  // namespace spillway::torch::cuda
