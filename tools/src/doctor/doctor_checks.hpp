// SPDX-License-Identifier: Apache-2.0
// The single checks of `spillway doctor`. Each returns its findings in the order in which they are
// shown. None throws. Where a limit turns into a warning is said beside the number in the source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "doctor/doctor.hpp"
#include "machine/disk_speed.hpp"
#include "machine/machine_facts.hpp"
#include "process/python_probe.hpp"

namespace spillway::tools {

std::vector<Finding> check_python(const PythonFacts& python);

/// RAM, control group, swap, huge pages. `root`: see machine_facts.hpp.
std::vector<Finding> check_memory(const std::string& root = "");

/// Mappings, address space, pages, io_uring.
std::vector<Finding> check_limits(const std::string& root = "");

/// Graphics cards that the driver's library shows.
Finding check_card(const std::string& library = "libcuda.so.1");

struct SpoolCheck {
  std::vector<Finding> findings{};
  Bytes free{};
  std::optional<DiskSpeed> speed{};  ///< nothing where it could not be measured
};

/// File system, free space, direct I/O and speed of the spool directory.
SpoolCheck check_spool(const std::string& directory);

}  // namespace spillway::tools
