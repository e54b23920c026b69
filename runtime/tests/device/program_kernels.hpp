// SPDX-License-Identifier: Apache-2.0
// The kernels of random programs of a card, which mix hashes, and what they make of values that
// are computed one after the other: the oracle.
//
// Looked at is a word at each kStride bytes of a storage. The values after a kernel are a function
// of those before and of a salt, so that a byte that comes too early, too late or from another
// storage changes all that follow.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {

inline constexpr std::uint64_t kStride = 512;  ///< bytes

/// The words of a storage that are looked at.
using Words = std::vector<std::uint64_t>;
using WrongReads = std::shared_ptr<std::atomic<std::uint64_t>>;

inline std::size_t words_in(Bytes bytes) { return bytes.count / kStride; }

/// Writes the one operand.
spillway::testing::DeviceKernel fill_kernel(std::size_t words, std::uint64_t salt);
void fill(Words& target, std::uint64_t salt);

/// Reads and writes the first operand, reads the two others.
spillway::testing::DeviceKernel mix_kernel(std::size_t words, std::size_t of_first,
                                           std::size_t of_second, std::uint64_t salt);
void mix(Words& target, const Words& first, const Words& second, std::uint64_t salt);

/// Reads the one operand, and counts it as wrong if it holds anything else.
spillway::testing::DeviceKernel check_kernel(Words expected, WrongReads wrong);

}  // namespace spillway::runtime
