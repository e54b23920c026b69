// SPDX-License-Identifier: Apache-2.0
#include "unchecked_callers.hpp"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace spillway::tf {
namespace {

// Between the allocator and the kernel that asked lie fewer.
constexpr std::size_t kFrames = 16;

// oneDNN's kernels get their results by functions of their own, which note the refusal in the
// context and return: the kernel goes on with a tensor without a buffer. Parts of the name of such
// a kernel's Compute.
constexpr std::string_view kOneDnn = "Mkl";
constexpr std::string_view kCompute = "7ComputeEPN";

// How the mangled names of OpKernelContext's functions begin. Every kernel has it among the types
// of its arguments, those too that get their workspace past it and do not look.
constexpr std::array<std::string_view, 2> kContext{"_ZN10tensorflow15OpKernelContext",
                                                   "_ZNK10tensorflow15OpKernelContext"};

// The mangled name; empty for a function that its library does not export.
std::string_view name_of(void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) return {};
  return info.dli_sname;
}

}  // namespace

bool caller_checks() {
  std::array<void*, kFrames> frames{};
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  bool in_context = false;
  for (auto frame = frames.begin(); frame != frames.begin() + count; ++frame) {
    const std::string_view name = name_of(*frame);
    const auto is_in = [name](std::string_view part) { return name.find(part) != name.npos; };
    if (is_in(kCompute) && is_in(kOneDnn)) return false;
    in_context = in_context || std::ranges::any_of(kContext, [name](std::string_view begin) {
                   return name.starts_with(begin);
                 });
  }
  return in_context;
}

}  // namespace spillway::tf
