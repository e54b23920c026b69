// SPDX-License-Identifier: Apache-2.0
// Spillway for libtorch programs.
//
//     #include <spillway/spillway_torch.hpp>
//     spillway::torch::enable({{"budget", "1GiB"}});     // before the model is made
//
// Operators need nothing else. Code that reads or writes memory by address (data_ptr, accessor,
// from an archive, or torch::save, which does) calls keep first: torch refuses the address of a
// tensor that is on disk, and an address taken earlier faults.
#pragma once

#include <torch/version.h>

#include <cstdint>
#include <map>
#include <string>

namespace at {
class Tensor;
}  // namespace at

// Everything that the library itself exports is in here: a program needs no other header of ours.
#define SPILLWAY_EXPORT __attribute__((visibility("default")))

namespace spillway::torch {

/// Settings of docs/settings.md, named in lower case and without `SPILLWAY_`, as text.
using Options = std::map<std::string, std::string>;

/// Manages the tensors that this process makes from now on: those on a graphics card where torch
/// sees one, and else, or with a budget such as `cpu:1GiB`, those on the CPU. Enabling again
/// replaces the settings. Call it before other threads use torch.
///
/// The version is that of the torch whose headers the program sees: a library for another minor
/// might load and do nothing, so it refuses.
///
/// Throws std::runtime_error, whose text says what to do, and changes nothing then.
SPILLWAY_EXPORT void enable(const Options& options, int torch_major = TORCH_VERSION_MAJOR,
                            int torch_minor = TORCH_VERSION_MINOR);

/// Everything comes back into memory; nothing moves any more.
SPILLWAY_EXPORT void disable();

/// Brings the tensor's storage back; it does not move until released as often as it was kept.
/// Throws std::runtime_error if that cannot be done; then it counts for nothing.
SPILLWAY_EXPORT void keep(const at::Tensor& tensor);

/// Undoes one keep. Without effect on a tensor that is not kept.
SPILLWAY_EXPORT void release(const at::Tensor& tensor);

/// Counters of this process. docs/statistics.md explains each; sizes are in bytes. The setting
/// "stats" writes these and more to a file at exit.
struct Statistics {
  std::uint64_t budget_bytes = 0;
  std::uint64_t device_bytes = 0;       ///< resident now
  std::uint64_t peak_device_bytes = 0;  ///< most that ever was
  std::uint64_t disk_bytes = 0;         ///< spool file in use now
  std::uint64_t evicted_bytes = 0;
  std::uint64_t clean_evicted_bytes = 0;  ///< left without a copy, since an identical one existed
  std::uint64_t fetched_bytes = 0;
  std::uint64_t overshoot_bytes = 0;  ///< most the budget was ever exceeded by
  std::int64_t stall_ns = 0;          ///< time that ops and allocations waited for room or data
};
SPILLWAY_EXPORT Statistics statistics();

}  // namespace spillway::torch

#undef SPILLWAY_EXPORT
