// SPDX-License-Identifier: Apache-2.0
#include "session/small_versions.hpp"

#include <array>
#include <atomic>

namespace spillway::torch {

namespace {

constexpr std::size_t kCounterBits = 12;
std::array<std::atomic<std::uint32_t>, std::size_t{1} << kCounterBits> g_versions{};

// Fibonacci hashing (Knuth, TAOCP 6.4).
std::atomic<std::uint32_t>& counter_of(const c10::StorageImpl& storage) {
  const std::uint64_t hash = reinterpret_cast<std::uintptr_t>(&storage) * 0x9E3779B97F4A7C15ULL;
  return g_versions[hash >> (64 - kCounterBits)];
}

// Of counters that tell nothing any more.
constexpr std::uint32_t kUnseen = std::uint32_t{1} << 31U;

}  // namespace

std::uint32_t version_of_small(const c10::StorageImpl& storage) {
  return counter_of(storage).load();
}

void begin_small_version(const c10::StorageImpl& storage) { counter_of(storage).fetch_add(1); }

void begin_all_small_versions() {
  for (std::atomic<std::uint32_t>& version : g_versions) version.fetch_add(1);
}

void expect_unseen_small_writes(const c10::StorageImpl& storage) {
  counter_of(storage).fetch_or(kUnseen);
}

bool shows_small_writes(const c10::StorageImpl& storage) {
  return (version_of_small(storage) & kUnseen) == 0;
}

}  // namespace spillway::torch
