// SPDX-License-Identifier: Apache-2.0
#include "values/chance.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace spillway::standin {

namespace {

constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;
constexpr std::int64_t kThreads = 1024;  // each draws four numbers at a time

}  // namespace

at::Generator generator_for(const std::optional<at::Generator>& asked, std::int64_t elements) {
  at::Generator generator = asked && asked->defined()
                                ? *asked
                                : at::globalContext().defaultGenerator(at::Device(c10::kCUDA, 0));
  if (generator.device().is_cpu()) return generator.clone();
  const std::lock_guard lock(generator.mutex());
  const std::uint64_t offset = generator.get_offset();
  generator.set_offset(offset +
                       4 * static_cast<std::uint64_t>((elements + kThreads - 1) / kThreads + 1));
  return at::detail::createCPUGenerator(generator.current_seed() * kSpread ^ (offset + 1));
}

}  // namespace spillway::standin
