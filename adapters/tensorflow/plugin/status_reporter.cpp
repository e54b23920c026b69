// SPDX-License-Identifier: Apache-2.0
#include "status_reporter.hpp"

#include <chrono>
#include <cstring>
#include <utility>

#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/shown_movers.hpp"
#include "spillway/runtime/signals_blocked.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::tf {
namespace {

using runtime::now_ns;

// The status line is drawn four times a second.
constexpr std::chrono::milliseconds kEvery{200};
constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t whole(TimeNs ns) { return static_cast<std::uint64_t>(ns); }

void show_memory(runtime::StatusSlot& slot, const MemoryUsage& memory) {
  slot.device_bytes.store(memory.held.count, kRelaxed);
  slot.peak_device_bytes.store(memory.peak_held.count, kRelaxed);
  slot.overshoot_bytes.store(saturating_sub(memory.peak_held, memory.budget).count, kRelaxed);
  slot.unmanaged_bytes.store(saturating_sub(runtime::resident_bytes(), memory.held).count,
                             kRelaxed);
  slot.shortages.store(memory.failures, kRelaxed);
  slot.short_bytes.store(memory.last_short.count, kRelaxed);
}

void show_moves(runtime::StatusSlot& slot, const runtime::StoreUsage& store,
                const runtime::StoreStatistics& moved) {
  slot.host_bytes.store(store.host.count, kRelaxed);
  slot.disk_bytes.store(store.disk.count, kRelaxed);
  slot.evicted_bytes.store((moved.stored_on_host + moved.stored_on_disk).count, kRelaxed);
  slot.fetched_bytes.store((moved.loaded_from_host + moved.loaded_from_disk).count, kRelaxed);
  slot.disk_written_bytes.store(moved.stored_on_disk.count, kRelaxed);
  slot.disk_read_bytes.store(moved.loaded_from_disk.count, kRelaxed);
}

void show_steps(runtime::StatusSlot& slot, const StepFigures& steps) {
  slot.steps.store(steps.steps, kRelaxed);
  slot.last_step_ns.store(whole(steps.last_ns), kRelaxed);
  slot.last_step_moved_bytes.store(steps.moved_in_last.count, kRelaxed);
}

}  // namespace

StatusReporter::StatusReporter(const runtime::Settings& settings,
                               std::function<RunFigures()> figures)
    : figures_(std::move(figures)),
      limited_(settings.budget.has_value()),
      mode_(settings.effective_mode()),
      started_(now_ns()) {
  if (settings.status_path.empty()) return;
  page_ = runtime::StatusMapping::open(settings.status_path);
  slot_ = page_.claim_slot();
  if (slot_ == nullptr) return;
  publish();
  const runtime::SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

void StatusReporter::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kEvery, [this] { return ended_; })) publish();
}

void StatusReporter::publish() {
  const RunFigures figures = figures_();
  slot_->mode.store(static_cast<std::uint32_t>(mode_), kRelaxed);
  slot_->budget_bytes.store(limited_ ? figures.memory.budget.count : 0, kRelaxed);
  show_memory(*slot_, figures.memory);
  show_moves(*slot_, figures.store, figures.moved);
  show(figures.movers, *slot_);
  show_steps(*slot_, figures.steps);
  slot_->stall_ns.store(whole(figures.stall), kRelaxed);
  slot_->started_ns.store(whole(started_), kRelaxed);
  slot_->elapsed_ns.store(whole(now_ns() - started_), kRelaxed);
  std::strncpy(slot_->io.data(), figures.transfers.c_str(), runtime::kIoNameBytes - 1);
  std::strncpy(slot_->planner.data(), figures.planner.c_str(), runtime::kPlannerNameBytes - 1);
}

void StatusReporter::end(bool unwritten, const std::string& notes) {
  if (slot_ == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  wake_.notify_all();
  thread_.join();
  publish();
  std::strncpy(slot_->notes.data(), notes.c_str(), runtime::kNotesBytes - 1);
  slot_->ending.store(static_cast<std::uint32_t>(runtime::Ending::kOther), kRelaxed);
  slot_->unwritten.store(unwritten ? 1 : 0, kRelaxed);
  slot_->ended_ns.store(whole(now_ns()), kRelaxed);
}

}  // namespace spillway::tf
