// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway::runtime {

struct StorageRecord;

/// A range of addresses of the device tier that one user has, as all but its own tier see it (see
/// DeviceTier). The addresses belong to it for the life of the process, so a stale pointer never
/// meets foreign memory. Guarded by the owner's lock.
struct DeviceBlock {
  std::byte* address = nullptr;  ///< what users get
  std::uint64_t bytes = 0;       ///< asked for by the present user
  bool accessible = false;       ///< reading it does not fault, and unless sealed nor does writing
  bool sealed = false;           ///< a write faults: a copy of it is being made
  bool intact = false;           ///< its user's bytes are all in place, whether accessible or not
  StorageRecord* record = nullptr;  ///< set while the block is one storage's memory
};

}  // namespace spillway::runtime
