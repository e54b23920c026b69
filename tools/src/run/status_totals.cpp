// SPDX-License-Identifier: Apache-2.0
#include "run/status_totals.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <sstream>
#include <utility>

namespace spillway::tools {
namespace {

std::uint64_t load(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

Bytes load_bytes(const std::atomic<std::uint64_t>& counter) { return Bytes{load(counter)}; }

TimeNs load_time(const std::atomic<std::uint64_t>& counter) {
  return static_cast<TimeNs>(load(counter));
}

// The owner may be rewriting it; the end of the array bounds it.
template <std::size_t kBytes>
std::string text_of(const std::array<char, kBytes>& text) {
  return {text.begin(), std::find(text.begin(), text.end(), '\0')};
}

// Bytes that would upset a terminal are shown as '?'.
std::string readable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

template <std::size_t kBytes>
std::string readable_name(const std::array<char, kBytes>& name) {
  return readable(text_of(name));
}

std::vector<std::string> read_notes(const runtime::StatusSlot& slot) {
  std::vector<std::string> notes;
  std::istringstream lines(text_of(slot.notes));
  for (std::string line; std::getline(lines, line);) notes.push_back(readable(std::move(line)));
  return notes;
}

// The time by the clock that processes note their start by.
TimeNs clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The time that the process published itself may be older, and is all there is where it noted no
// start.
TimeNs elapsed_of(const runtime::StatusSlot& slot) {
  const TimeNs started = load_time(slot.started_ns);
  const TimeNs ended = load_time(slot.ended_ns);
  const TimeNs published = load_time(slot.elapsed_ns);
  if (started == 0) return published;
  return std::max(published, (ended != 0 ? ended : clock_now()) - started);
}

bool died_short(const runtime::StatusSlot& slot) {
  if (slot.ending.load(std::memory_order_relaxed) ==
      static_cast<std::uint32_t>(runtime::Ending::kOutOfMemory)) {
    return true;
  }
  // TensorFlow's processes count no ops: of them it is not known that they did not go on.
  const std::uint64_t ops = load(slot.ops);
  return load(slot.shortages) != 0 && ops != 0 && ops == load(slot.ops_at_shortage);
}

std::vector<Mover> read_movers(const runtime::StatusSlot& slot) {
  std::vector<Mover> movers;
  for (const runtime::StatusMover& mover : slot.movers) {
    const Bytes moved = load_bytes(mover.moved_bytes);
    if (moved > Bytes{0}) movers.push_back(Mover{readable_name(mover.name), moved});
  }
  return movers;
}

ProcessStatus read_slot(const runtime::StatusSlot& slot) {
  ProcessStatus status;
  status.pid = slot.pid.load(std::memory_order_relaxed);
  const auto mode = slot.mode.load(std::memory_order_relaxed);
  if (mode <= static_cast<std::uint32_t>(runtime::Mode::kVerify)) {
    status.mode = static_cast<runtime::Mode>(mode);
  }
  status.budget = load_bytes(slot.budget_bytes);
  status.device = load_bytes(slot.device_bytes);
  status.host = load_bytes(slot.host_bytes);
  status.unmanaged = load_bytes(slot.unmanaged_bytes);
  status.disk = load_bytes(slot.disk_bytes);
  status.peak_device = load_bytes(slot.peak_device_bytes);
  status.floor = load_bytes(slot.floor_bytes);
  status.evicted = load_bytes(slot.evicted_bytes);
  status.clean_evicted = load_bytes(slot.clean_evicted_bytes);
  status.fetched = load_bytes(slot.fetched_bytes);
  status.disk_written = load_bytes(slot.disk_written_bytes);
  status.disk_read = load_bytes(slot.disk_read_bytes);
  status.last_step_moved = load_bytes(slot.last_step_moved_bytes);
  status.overshoot = load_bytes(slot.overshoot_bytes);
  status.stall = load_time(slot.stall_ns);
  status.mapping = load_time(slot.mapping_ns);
  status.elapsed = elapsed_of(slot);
  status.last_step = load_time(slot.last_step_ns);
  status.steps = load(slot.steps);
  // Two updates may mix: no more ops than there were.
  const std::uint64_t ops = load(slot.ops);
  status.ops_in_step = ops - std::min(ops, load(slot.step_began_ops));
  status.last_step_ops = load(slot.last_step_ops);
  status.stopped_after_step = load(slot.stopped_after_step);
  status.shortages = load(slot.shortages);
  status.short_by = load_bytes(slot.short_bytes);
  status.died_short = died_short(slot);
  status.said_end = slot.ending.load(std::memory_order_relaxed) !=
                    static_cast<std::uint32_t>(runtime::Ending::kUnsaid);
  status.unwritten = slot.unwritten.load(std::memory_order_relaxed) != 0;
  status.io = readable_name(slot.io);
  status.planner = readable_name(slot.planner);
  status.notes = read_notes(slot);
  status.pages = readable_name(slot.pages);
  status.movers = read_movers(slot);
  return status;
}

bool waits(const runtime::StatusSlot& slot) {
  return slot.waits.load(std::memory_order_relaxed) != 0;
}

double fullness(const ProcessStatus& status) {
  if (status.budget.count == 0) return 0;
  return static_cast<double>(status.peak_device.count) / static_cast<double>(status.budget.count);
}

void add_movers(std::vector<Mover>& sum, const std::vector<Mover>& movers) {
  for (const Mover& mover : movers) {
    const auto same = std::find_if(sum.begin(), sum.end(),
                                   [&](const Mover& other) { return other.name == mover.name; });
    if (same == sum.end()) {
      sum.push_back(mover);
    } else {
      same->moved += mover.moved;
    }
  }
}

// What several processes say is said once.
void add_notes(std::vector<std::string>& all, const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    if (std::ranges::find(all, note) == all.end()) all.push_back(note);
  }
}

void add(ProcessStatus& sum, const ProcessStatus& status) {
  sum.budget += status.budget;
  sum.device += status.device;
  sum.host += status.host;
  sum.unmanaged += status.unmanaged;
  sum.disk += status.disk;
  sum.peak_device += status.peak_device;
  sum.floor = std::max(sum.floor, status.floor);
  sum.evicted += status.evicted;
  sum.clean_evicted += status.clean_evicted;
  sum.fetched += status.fetched;
  sum.disk_written += status.disk_written;
  sum.disk_read += status.disk_read;
  sum.last_step_moved += status.last_step_moved;
  sum.overshoot = std::max(sum.overshoot, status.overshoot);
  sum.stall += status.stall;
  sum.mapping += status.mapping;
  sum.elapsed += status.elapsed;
  sum.last_step = std::max(sum.last_step, status.last_step);
  const bool first_to_begin = sum.ops_in_step == 0;
  if (status.steps > sum.steps || first_to_begin) {
    sum.ops_in_step = status.ops_in_step;
    sum.last_step_ops = status.last_step_ops;
  }
  sum.steps = std::max(sum.steps, status.steps);
  sum.stopped_after_step = std::max(sum.stopped_after_step, status.stopped_after_step);
  if (status.died_short == sum.died_short) {
    sum.short_by = std::max(sum.short_by, status.short_by);
  } else if (status.died_short) {
    sum.short_by = status.short_by;
  }
  sum.shortages += status.shortages;
  sum.died_short |= status.died_short;
  sum.unwritten |= status.unwritten;
  add_movers(sum.movers, status.movers);
  add_notes(sum.notes, status.notes);
}

}  // namespace

void note_ends(runtime::StatusPage& page) {
  for (runtime::StatusSlot& slot : page.slots) {
    const std::uint32_t pid = slot.pid.load(std::memory_order_acquire);
    if (pid == 0 || load(slot.ended_ns) != 0 || load(slot.started_ns) == 0) continue;
    if (kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) continue;
    std::uint64_t unsaid = 0;
    slot.ended_ns.compare_exchange_strong(unsaid, static_cast<std::uint64_t>(clock_now()));
  }
}

std::vector<ProcessStatus> read_processes(const runtime::StatusPage& page) {
  std::vector<ProcessStatus> processes;
  for (const runtime::StatusSlot& slot : page.slots) {
    if (slot.pid.load(std::memory_order_acquire) == 0 || waits(slot)) continue;
    processes.push_back(read_slot(slot));
  }
  return processes;
}

bool anyone_waits_for_a_card(const runtime::StatusPage& page) {
  return std::ranges::any_of(page.slots, waits);
}

StatusTotals total_of(std::span<const ProcessStatus> processes) {
  StatusTotals totals;
  totals.processes = processes.size();
  if (processes.empty()) return totals;
  totals.sum.mode = processes.front().mode;
  totals.sum.said_end = std::ranges::all_of(processes, &ProcessStatus::said_end);
  totals.sum.io = processes.front().io;
  totals.sum.pages = processes.front().pages;
  totals.fullest = processes.front();
  for (const ProcessStatus& status : processes) {
    if (totals.sum.planner.empty()) totals.sum.planner = status.planner;
    add(totals.sum, status);
    if (status.stopped_after_step != 0) ++totals.resting;
    totals.longest_elapsed = std::max(totals.longest_elapsed, status.elapsed);
    if (fullness(status) > fullness(totals.fullest)) totals.fullest = status;
  }
  std::stable_sort(totals.sum.movers.begin(), totals.sum.movers.end(),
                   [](const Mover& a, const Mover& b) { return a.moved > b.moved; });
  if (totals.sum.movers.size() > runtime::kTopMovers) {
    totals.sum.movers.resize(runtime::kTopMovers);
  }
  return totals;
}

std::string fits_text(const StatusTotals& totals) {
  if (totals.resting == 0) return "";
  if (totals.resting < totals.processes) {
    return fmt::format("fits: stopped watching in {} of {} processes", totals.resting,
                       totals.processes);
  }
  return fmt::format("fits: stopped watching after step {}", totals.sum.stopped_after_step);
}

double share_of_time(TimeNs time, const ProcessStatus& status) {
  if (status.elapsed <= 0) return 0;
  const double share = static_cast<double>(time) / static_cast<double>(status.elapsed);
  // Several threads may wait at once; the share of one program is never more than all of its time.
  return std::clamp(share, 0.0, 1.0);
}

}  // namespace spillway::tools
