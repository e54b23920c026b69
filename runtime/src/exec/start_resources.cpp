// SPDX-License-Identifier: Apache-2.0
#include "start_resources.hpp"

#include <filesystem>
#include <string>

#include "budget_share.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

namespace {

std::shared_ptr<Spool> open_spool(const Settings& settings, bool spool_stays) {
  const MachineMemory disk = measure_disk(settings.spool_dir, local_world_size());
  const Bytes budget = settings.disk_budget
                           ? resolve_budget(*settings.disk_budget, disk, "SPILLWAY_DISK_BUDGET")
                           : Bytes{0};
  if (spool_stays) return nullptr;
  // The program may change its directory before the file is opened.
  const std::string directory =
      settings.spool_dir.empty() ? "" : std::filesystem::absolute(settings.spool_dir).string();
  return std::make_shared<Spool>(SpoolOptions{
      .directory = directory, .budget = budget, .warn = warn_once, .sharers = local_world_size()});
}

Bytes host_budget(const Settings& settings, const MachineMemory& machine, Bytes usual) {
  return settings.host_budget
             ? resolve_budget(*settings.host_budget, machine, "SPILLWAY_HOST_BUDGET")
             : usual;
}

}  // namespace

StartResources start_resources(const Settings& settings, const HeldResources& held,
                               TierSet& tiers) {
  const Mode mode = settings.effective_mode();
  const MachineMemory machine = measure_memory(local_world_size(), held.device);
  const Bytes usual_host = tiers.usual_host_budget(machine);
  StartResources result{.budget = kNoLimit, .host_budget = {}, .spool = {}, .transfers = {}};
  if (settings.emulate_device) {
    result.budget = *settings.emulate_device;
    result.host_budget = host_budget(settings, machine, machine.total);
  } else if (settings.budget && mode != Mode::kOff) {
    result.budget =
        resolve_budget(*settings.budget, tiers.measure(held.device), tiers.budget_name());
  }
  if (usual_host.count != 0) result.host_budget = host_budget(settings, machine, usual_host);
  if (moves(mode)) {
    result.spool = open_spool(settings, held.spool_stays);
    result.transfers = tiers.transfers(make_transfers(settings.io));
  }
  return result;
}

}  // namespace spillway::runtime
