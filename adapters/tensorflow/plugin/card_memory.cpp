// SPDX-License-Identifier: Apache-2.0
#include "card_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace spillway::tf {
namespace {

Bytes bytes_of(std::int64_t count) {
  return {static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0))};
}

}  // namespace

std::string CardMemory::meet(::tensorflow::Allocator& allocator) {
  if (allocator_.load(std::memory_order_acquire) == &allocator) return {};
  const auto stats = allocator.GetStats();
  if (!stats || !stats->bytes_limit || bytes_of(*stats->bytes_limit) > budget_) {
    return fmt::format(
        "TensorFlow may hold {} on GPU:0, which is more than the budget of {}. Spillway's Python "
        "package sets that limit when the program begins: import tensorflow in Python, or give "
        "GPU:0 a logical device configuration of that memory_limit.",
        stats && stats->bytes_limit ? to_string(bytes_of(*stats->bytes_limit)) : "any memory",
        to_string(budget_));
  }
  allocator_.store(&allocator, std::memory_order_release);
  return {};
}

Bytes CardMemory::take_peak() {
  ::tensorflow::Allocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return {};
  const std::lock_guard lock(mutex_);
  const auto stats = allocator->GetStats();
  const Bytes peak = stats ? bytes_of(stats->peak_bytes_in_use) : Bytes{};
  peak_ = std::max(peak_, peak);
  // An allocator that cannot clear them says so, and its peak is that of the process.
  [[maybe_unused]] const bool cleared = allocator->ClearStats();
  return peak;
}

MemoryUsage CardMemory::usage() {
  MemoryUsage usage{.budget = budget_};
  ::tensorflow::Allocator* const allocator = allocator_.load(std::memory_order_acquire);
  if (allocator == nullptr) return usage;
  const auto stats = allocator->GetStats();
  if (!stats) return usage;
  const std::lock_guard lock(mutex_);
  usage.live = bytes_of(stats->bytes_in_use);
  usage.peak_live = std::max(peak_, bytes_of(stats->peak_bytes_in_use));
  usage.held = usage.live;
  usage.peak_held = usage.peak_live;
  return usage;
}

}  // namespace spillway::tf
