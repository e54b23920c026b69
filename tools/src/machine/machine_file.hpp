// SPDX-License-Identifier: Apache-2.0
// Measurements of this machine as a machine to plan for: one that trains on its processor, so
// its memory is the device tier and its disk the only slower one. Every figure says whether it was
// measured or assumed.
#pragma once

#include <optional>
#include <string>

#include "machine/disk_speed.hpp"
#include "machine/processor_speed.hpp"
#include "spillway/base/bytes.hpp"
#include "spillway/machine/machine.hpp"

namespace spillway::tools {

struct MeasuredMachine {
  std::string name;       ///< as the file is called
  std::string processor;  ///< as its maker calls it
  Bytes memory{};         ///< that this process may use
  ProcessorSpeed speed;
  std::optional<DiskSpeed> disk;  ///< nothing: no disk tier
  Bytes disk_free{};
};

/// Valid by validate(machine), provided all rates are above zero.
Machine machine_of(const MeasuredMachine& measured);

/// Measures the processor, and writes the file. `path` names the machine too.
/// Throws UserError if the file cannot be written or a rate could not be measured.
Machine save_machine(const std::string& path, std::optional<DiskSpeed> disk, Bytes disk_free);

}  // namespace spillway::tools
