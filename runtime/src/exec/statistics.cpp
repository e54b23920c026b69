// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/statistics.hpp"

#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "engine_lock.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

namespace {

Bytes unmanaged_beside(Bytes device) { return saturating_sub(resident_bytes(), device); }

}  // namespace

std::int64_t Engine::stalled_ns() const {
  return stall_ns_ + mover_.statistics().copied_at_once.count();
}

Statistics Engine::statistics() {
  const Lock lock(*this);
  if (!in_child_) drain_freed();
  Statistics result;
  result.mode = mode();
  result.budget = stated_budget();
  result.shared = shared_.claimed_by_others();
  result.device = memory_.budget().used();
  result.unmanaged = unmanaged_beside(memory_.budget().used());
  result.peak_device = memory_.budget().peak();
  result.peak_live = memory_.peak_live();
  result.floor = floor_;
  result.host = mover_.used(Tier::kHost);
  result.overshoot = memory_.budget().overshoot();
  result.stall_ns = stalled_ns();
  result.elapsed_ns = now_ns() - started_;
  result.ops = clock_.load() - 1;
  result.steps = steps_.load();
  result.last_step_ns = last_step_ns_;
  result.stopped_after_step = outcome_.stopped_after_step;
  result.shortages = outcome_.shortages;
  result.short_by = outcome_.short_by;
  result.out_of_memory = outcome_.ending == Ending::kOutOfMemory;
  result.last_step_moved = last_step_moved_;
  result.storages = mover_.live().size();
  result.pages = memory_.arena().pool() != nullptr
                     ? "page pool"
                     : "plain arena, since " +
                           (PagePool::why_not().empty() ? "it was asked for" : PagePool::why_not());
  result.rounding = memory_.slab_rounding();
  for (const StorageRecord* record : mover_.live()) {
    if (record->block->idle()) continue;
    result.rounding += saturating_sub({record->block->resident}, {record->block->bytes});
  }
  result.moves = mover_.statistics();
  result.top_movers = mover_.tally().top(kTopMovers);
  if (!in_child_) {
    result.io = mover_.transfers().description();
    result.disk_written = mover_.transfers().bytes_written();
    result.disk_read = mover_.transfers().bytes_read();
  }
  if (mover_.spool() != nullptr) result.disk = mover_.spool()->used_bytes();
  return result;
}

void Engine::reset_peak() {
  const Lock lock(*this);
  drain_freed();
  memory_.release_idle();
  memory_.reset_peak();
  floor_ = {};
}

void Engine::publish() {
  if (slot_.load() == nullptr) return;
  constexpr auto kRelaxed = std::memory_order_relaxed;
  StatusSlot& slot = *slot_.load();
  slot.mode.store(static_cast<std::uint32_t>(mode()), kRelaxed);
  const bool limited = settings_.budget.has_value() || settings_.emulate_device.has_value();
  slot.budget_bytes.store(limited ? stated_budget().count : 0, kRelaxed);
  publish_use(slot);
  slot.unmanaged_bytes.store(unmanaged_beside(memory_.budget().used()).count, kRelaxed);
  slot.floor_bytes.store(floor_.count, kRelaxed);
  slot.host_bytes.store(mover_.used(Tier::kHost).count, kRelaxed);
  slot.disk_bytes.store(mover_.spool() == nullptr ? 0 : mover_.spool()->used_bytes().count,
                        kRelaxed);
  const MoveStatistics& moves = mover_.statistics();
  slot.evicted_bytes.store(moves.evicted.count, kRelaxed);
  slot.clean_evicted_bytes.store(moves.clean_evicted.count, kRelaxed);
  slot.fetched_bytes.store(moves.fetched.count, kRelaxed);
  slot.disk_written_bytes.store(mover_.transfers().bytes_written().count, kRelaxed);
  slot.disk_read_bytes.store(mover_.transfers().bytes_read().count, kRelaxed);
  slot.stall_ns.store(static_cast<std::uint64_t>(stalled_ns()), kRelaxed);
  slot.elapsed_ns.store(static_cast<std::uint64_t>(now_ns() - started_), kRelaxed);
  slot.steps.store(steps_.load(kRelaxed), kRelaxed);
  slot.last_step_ns.store(static_cast<std::uint64_t>(last_step_ns_), kRelaxed);
  slot.last_step_moved_bytes.store(last_step_moved_.count, kRelaxed);
  const std::uint64_t ops = clock_.load(kRelaxed) - 1;
  slot.ops.store(ops, kRelaxed);
  slot.step_began_ops.store(progress_.began(), kRelaxed);
  slot.last_step_ops.store(progress_.length(), kRelaxed);
  slot.overshoot_bytes.store(memory_.budget().overshoot().count, kRelaxed);
  slot.stopped_after_step.store(outcome_.stopped_after_step, kRelaxed);
  slot.shortages.store(outcome_.shortages, kRelaxed);
  slot.short_bytes.store(outcome_.short_by.count, kRelaxed);
  slot.ops_at_shortage.store(outcome_.ops_at_shortage, kRelaxed);
  slot.started_ns.store(static_cast<std::uint64_t>(started_), kRelaxed);
  slot.ended_ns.store(static_cast<std::uint64_t>(outcome_.ended), kRelaxed);
  slot.ending.store(static_cast<std::uint32_t>(outcome_.ending), kRelaxed);
  slot.unwritten.store(outcome_.unwritten ? 1 : 0, kRelaxed);
  std::strncpy(slot.io.data(), mover_.transfers().description().c_str(), kIoNameBytes - 1);
  const auto movers = mover_.tally().top(kTopMovers);
  for (std::size_t i = 0; i < movers.size(); ++i) {
    std::strncpy(slot.movers[i].name.data(), movers[i].name.c_str(), kMoverNameBytes - 1);
    slot.movers[i].moved_bytes.store(movers[i].bytes.count, kRelaxed);
  }
  rhythm_.updated(ops + 1, now_ns());
}

std::string to_json(const Statistics& s) {
  nlohmann::ordered_json json{
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
      {"evictions", s.moves.evictions},
      {"fetches", s.moves.fetches},
      {"recalls", s.moves.recalls},
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
  };
  auto movers = nlohmann::ordered_json::array();
  for (const MoveTally::Moved& moved : s.top_movers) {
    movers.push_back({{"name", moved.name}, {"moved_bytes", moved.bytes.count}});
  }
  json["top_movers"] = movers;
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
