// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/statistics.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spillway/runtime/device/mapping_time.hpp"
#include "spillway/runtime/shown_movers.hpp"

namespace spillway::runtime {
std::string to_json(const Statistics& s) {
  const nlohmann::ordered_json json{
      {"mode", std::string(to_string(s.mode))},
      {"budget_bytes", s.budget.count},
      {"shared_bytes", s.shared.count},
      {"device_bytes", s.device.count},
      {"peak_device_bytes", s.peak_device.count},
      {"peak_live_bytes", s.peak_live.count},
      {"floor_bytes", s.floor.count},
      {"unmanaged_bytes", s.unmanaged.count},
      {"host_bytes", s.host.count},
      {"disk_bytes", s.disk.count},
      {"evicted_bytes", s.moves.evicted.count},
      {"clean_evicted_bytes", s.moves.clean_evicted.count},
      {"fetched_bytes", s.moves.fetched.count},
      {"recalled_bytes", s.moves.recalled.count},
      {"recomputed_bytes", s.moves.recomputed.count},
      {"evictions", s.moves.evictions},
      {"fetches", s.moves.fetches},
      {"recalls", s.moves.recalls},
      {"recomputations", s.moves.recomputations},
      {"recomputing_ns", s.moves.recomputing.count()},
      {"failed_copies", s.moves.failed_copies},
      {"undeclared_writes", s.moves.undeclared_writes},
      {"checksums_compared", s.moves.checksums_compared},
      {"io", s.io},
      {"pages", s.pages},
      {"disk_written_bytes", s.disk_written.count},
      {"disk_read_bytes", s.disk_read.count},
      {"overshoot_bytes", s.overshoot.count},
      {"rounding_bytes", s.rounding.count},
      {"stall_ns", s.stall_ns},
      {"mapping_ns", s.mapping_ns},
      {"elapsed_ns", s.elapsed_ns},
      {"ops", s.ops},
      {"steps", s.steps},
      {"stopped_after_step", s.stopped_after_step},
      {"shortages", s.shortages},
      {"short_bytes", s.short_by.count},
      {"out_of_memory", s.out_of_memory},
      {"last_step_ns", s.last_step_ns},
      {"last_step_moved_bytes", s.last_step_moved.count},
      {"storages", s.storages},
      {"top_movers", to_json(s.top_movers)},
  };
  return json.dump(1);
}

std::string to_summary(const Statistics& s) {
  const double stalled = static_cast<double>(s.stall_ns) * 1e-9;
  const double share =
      s.elapsed_ns > 0 ? 100.0 * static_cast<double>(s.stall_ns) / static_cast<double>(s.elapsed_ns)
                       : 0.0;
  if (s.mode == Mode::kRecord) {
    return fmt::format("spillway: peak {}, floor {}; {} steps\n", to_string(s.peak_device),
                       to_string(s.floor), s.steps);
  }
  std::string text = fmt::format(
      "spillway: peak {} of budget {}; evicted {} ({} clean), fetched {}\n"
      "spillway: disk written {}, read {}; stalled {:.1f} s ({:.0f} %); {} steps\n",
      to_string(s.peak_device), to_string(s.budget),
      to_string(s.moves.evicted + s.moves.clean_evicted), to_string(s.moves.clean_evicted),
      to_string(s.moves.fetched), to_string(s.disk_written), to_string(s.disk_read), stalled, share,
      s.steps);
  if (s.moves.recomputations != 0) {
    text += fmt::format("spillway: recomputed {} in {:.1f} s\n", to_string(s.moves.recomputed),
                        static_cast<double>(s.moves.recomputing.count()) * 1e-9);
  }
  if (mapping_matters(s.mapping_ns, s.elapsed_ns)) {
    text += fmt::format("spillway: mapping the card's memory held the program up for {:.1f} s\n",
                        static_cast<double>(s.mapping_ns) * 1e-9);
  }
  if (s.disk_written.count != 0) text += fmt::format("spillway: transfers by {}\n", s.io);
  if (s.stopped_after_step != 0) {
    text += fmt::format("spillway: fits: stopped watching after step {}\n", s.stopped_after_step);
  }
  if (s.out_of_memory) {
    text += fmt::format("spillway: ended: out of memory, short {}\n", to_string(s.short_by));
  }
  if (s.overshoot.count != 0) {
    text += fmt::format("spillway: the budget was exceeded by up to {}\n", to_string(s.overshoot));
  }
  return text;
}

}  // namespace spillway::runtime
