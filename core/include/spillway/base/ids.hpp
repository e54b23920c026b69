// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace spillway {

/// Names one storage for its life. Never reused within a process or a trace.
enum class StorageId : std::uint64_t {};
/// Position of an op in its stream or trace, counted from 0.
enum class OpIndex : std::uint64_t {};

constexpr std::uint64_t to_value(StorageId id) { return static_cast<std::uint64_t>(id); }
constexpr std::uint64_t to_value(OpIndex index) { return static_cast<std::uint64_t>(index); }

/// Nanoseconds of some monotonic clock, real or virtual.
using TimeNs = std::int64_t;

}  // namespace spillway
