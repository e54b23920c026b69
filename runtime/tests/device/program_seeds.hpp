// SPDX-License-Identifier: Apache-2.0
// Which random programs of a card run, and which call of its driver fails in one.
//
// PROGRAM_SEED says where they start (1), PROGRAMS how many there are.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>

#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {

struct ProgramSeeds {
  std::uint64_t first;
  std::uint64_t count;

  static ProgramSeeds stated(std::uint64_t usual_count) {
    const auto number = [](const char* variable, std::uint64_t usual) {
      const char* const said = std::getenv(variable);
      return said != nullptr ? std::strtoull(said, nullptr, 10) : usual;
    };
    return {number("PROGRAM_SEED", 1), number("PROGRAMS", usual_count)};
  }
  [[nodiscard]] std::uint64_t end() const { return first + count; }
  /// The first `times / of` of them, at least one.
  [[nodiscard]] ProgramSeeds share(std::uint64_t times, std::uint64_t of) const {
    const std::uint64_t part = count * times / of;
    return {first, part != 0 ? part : 1};
  }
};

/// One call fails once, somewhere in the program of that seed: each call in turn.
inline void fail_one_call(spillway::testing::ThreadDevice& device, std::uint64_t seed) {
  using spillway::testing::DeviceCall;
  using spillway::testing::ThreadDevice;
  constexpr std::array kStatuses = {ThreadDevice::kOutOfMemory, ThreadDevice::kInvalid,
                                    ThreadDevice::kNotPermitted};
  device.fail(static_cast<DeviceCall>(seed % static_cast<std::uint64_t>(DeviceCall::kCount)),
              1 + static_cast<unsigned>(seed % 13), kStatuses[seed / 7 % kStatuses.size()]);
}

}  // namespace spillway::runtime
