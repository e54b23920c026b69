// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::runtime {

/// The memory that this machine and its cgroups leave, read from /proc and the cgroup files; the
/// page cache counts as available. `ours`: bytes that this process holds for tensors. `root`: the
/// folder that /proc and /sys lie in.
MachineMemory measure_memory(std::uint32_t local_processes, Bytes ours,
                             const std::string& root = "");

/// Free space of the file system of `directory` (empty: the default spool directory) as `total`.
/// Throws UserError if the directory does not exist or cannot be written.
MachineMemory measure_disk(const std::string& directory, std::uint32_t local_processes);

/// The processes of this machine that share it, as launchers say (LOCAL_WORLD_SIZE); 1 where none
/// does.
std::uint32_t local_world_size();

/// Resident bytes of this process.
Bytes resident_bytes();

/// Logs `text` as a warning, once per text and process.
void warn_once(const std::string& text);

}  // namespace spillway::runtime
