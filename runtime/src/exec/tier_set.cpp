// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/tier_set.hpp"

#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

MachineMemory RamTiers::measure(Bytes ours) { return measure_memory(local_world_size(), ours); }

}  // namespace spillway::runtime
