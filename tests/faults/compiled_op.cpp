// SPDX-License-Identifier: Apache-2.0
// An operator as a C++ extension registers it, compiled by the test that uses it (compiled_op.py):
// `compiled::clear` sets its tensor to zero through its address when it is told to go on. It has a
// kernel for the CPU and none for autograd.
#include <torch/library.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include <ATen/ATen.h>

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> g_begun{false};
std::atomic<bool> g_go_on{false};
std::atomic<bool> g_runs_ops{false};
std::atomic<int> g_stayed{-1};

// Asked of the kernel, since a fault would end the process.
bool is_in_memory(const void* address) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return false;
  const bool written = ::write(ends[1], address, 1) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  return written;
}

void clear(const at::Tensor& value) {
  void* const address = value.data_ptr();
  const std::size_t size = value.nbytes();
  const auto end = Clock::now() + std::chrono::seconds(30);
  g_begun = true;
  while (!g_go_on && Clock::now() < end) {
    if (g_runs_ops) at::ones({4}).add(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  g_stayed = is_in_memory(address) ? 1 : 0;
  if (g_stayed == 1) std::memset(address, 0, size);
}

}  // namespace

TORCH_LIBRARY(compiled, library) { library.def("clear(Tensor(a!) value) -> ()"); }
TORCH_LIBRARY_IMPL(compiled, CPU, library) { library.impl("clear", clear); }

extern "C" {
void compiled_op_runs_ops() { g_runs_ops = true; }
void compiled_op_go_on() { g_go_on = true; }
int compiled_op_begun() { return g_begun ? 1 : 0; }
/// -1 while it runs, else whether the tensor was in memory then; nothing is written where not.
int compiled_op_stayed() { return g_stayed; }
}
