// SPDX-License-Identifier: Apache-2.0
#include "machine/processor_speed.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "spillway/base/processor_clock.hpp"
#include "spillway/machine/this_processor.hpp"

namespace spillway::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRun{40};
constexpr int kRuns = 5;
// Multiply-adds in flight: two units of four to five cycles need ten; sixteen registers hold twelve
// and both operands.
constexpr std::size_t kChains = 12;
constexpr std::uint64_t kRoundsAtATime = 4096;

template <typename Number, std::size_t kBytes>
struct Lanes {
  typedef Number Vector __attribute__((vector_size(kBytes)));
  static constexpr std::size_t kCount = kBytes / sizeof(Number);
};

// Independent chains of x = x * a + b, for the instructions named. A macro, since compilers split
// wide vectors by the instructions of the function that they stand in before they inline it.
// The asm keeps the compiler from working out where a chain ends, and the chains in registers.
#define SPILLWAY_MULTIPLY_ADD(name, instructions, bytes)                                       \
  template <typename Number>                                                                   \
  [[gnu::target(instructions)]] double name() {                                                \
    using Vector = typename Lanes<Number, bytes>::Vector;                                      \
    Vector chains[kChains] = {};                                                               \
    const Vector a = Vector{} + static_cast<Number>(0.5);                                      \
    const Vector b = Vector{} + static_cast<Number>(1);                                        \
    for (std::uint64_t round = 0; round < kRoundsAtATime; ++round) {                           \
      for (std::size_t i = 0; i < kChains; ++i) {                                              \
        chains[i] = chains[i] * a + b;                                                         \
        asm volatile("" : "+x"(chains[i]));                                                    \
      }                                                                                        \
    }                                                                                          \
    return 2.0 * static_cast<double>(kRoundsAtATime * kChains * Lanes<Number, bytes>::kCount); \
  }
SPILLWAY_MULTIPLY_ADD(multiply_add_avx512, "avx512f", 64)
SPILLWAY_MULTIPLY_ADD(multiply_add_avx2, "avx2,fma", 32)
SPILLWAY_MULTIPLY_ADD(multiply_add_sse2, "sse2", 16)
#undef SPILLWAY_MULTIPLY_ADD

double processor_seconds() { return static_cast<double>(thread_processor_time()) * 1e-9; }

// Runs `work` on every processor until the time is up; work(thread) returns what it did. Every
// thread's part is divided by the processor time that it had, so that other programs on the machine
// take nothing away but caches and memory's rate.
template <typename Work>
double rate(unsigned threads, const Work& work) {
  std::vector<double> rates(threads, 0);
  std::vector<std::thread> running;
  const auto start = Clock::now();
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      const double begin = processor_seconds();
      double done = 0;
      do {
        done += work(thread);
      } while (Clock::now() - start < kRun);
      rates[thread] = done / (processor_seconds() - begin);
    });
  }
  for (std::thread& thread : running) thread.join();
  double sum = 0;
  for (const double part : rates) sum += part;
  return sum;
}

template <typename Work>
double best_rate(unsigned threads, const Work& work) {
  double best = 0;
  for (int run = 0; run < kRuns; ++run) best = std::max(best, rate(threads, work));
  return best;
}

using Kernel = double (*)();

struct Kernels {
  std::string name;
  Kernel float32;
  Kernel float64;
};

Kernels kernels_of_this_processor() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) {
    return {"AVX-512", multiply_add_avx512<float>, multiply_add_avx512<double>};
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"AVX2", multiply_add_avx2<float>, multiply_add_avx2<double>};
  }
  return {"SSE2", multiply_add_sse2<float>, multiply_add_sse2<double>};
}

// y = a * x over a share of the arrays: what elementwise ops do.
double scale(const std::vector<float>& x, std::vector<float>& y, std::size_t begin,
             std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) y[i] = 0.5F * x[i];
  asm volatile("" : : "r"(y.data()) : "memory");
  return 2.0 * static_cast<double>((end - begin) * sizeof(float));
}

double memory_rate(unsigned threads, Bytes most_bytes) {
  const std::size_t count = most_bytes.count / 2 / sizeof(float);
  // Both are written here, so that every page is there when the clock starts.
  const std::vector<float> x(count, 1);
  std::vector<float> y(count, 1);
  const std::size_t share = count / threads;
  return best_rate(
      threads, [&](unsigned thread) { return scale(x, y, thread * share, (thread + 1) * share); });
}

}  // namespace

ProcessorSpeed measure_processor_speed(Bytes most_bytes) {
  ProcessorSpeed speed;
  speed.processors = usable_processors();
  const Kernels kernels = kernels_of_this_processor();
  speed.instructions = kernels.name;
  speed.float32_rate = best_rate(speed.processors, [&](unsigned) { return kernels.float32(); });
  speed.float64_rate = best_rate(speed.processors, [&](unsigned) { return kernels.float64(); });
  speed.memory_rate = memory_rate(speed.processors, most_bytes);
  speed.memory_touched = most_bytes;
  return speed;
}

}  // namespace spillway::tools
