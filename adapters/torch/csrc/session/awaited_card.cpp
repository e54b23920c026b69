// SPDX-License-Identifier: Apache-2.0
#include "session/awaited_card.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "cuda/allocator_hook.hpp"
#include "session/engines.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/output_files.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::torch {

namespace {

/// When the file was written, so that another's is not overwritten; the least time where there is
/// none.
std::filesystem::file_time_type time_of(const std::string& path) {
  std::error_code none;
  return std::filesystem::last_write_time(path, none);
}

struct Wait {
  runtime::Settings settings;
  std::filesystem::file_time_type statistics_written;
  runtime::StatusMapping page;
  runtime::StatusSlot* slot = nullptr;
  pid_t process = 0;  // that waits; what it forks leaves its files and its slot alone
  std::atomic<bool> refused{false};
};
Wait* g_wait = nullptr;  // never destroyed: used at exit

bool is_of_this_process() { return g_wait != nullptr && ::getpid() == g_wait->process; }

// False where the start was refused: the status of the process shows it then.
bool write_unused() {
  if (!is_of_this_process()) return true;
  if (g_wait->refused) return false;
  if (Engines::made() != nullptr) return true;
  if (g_wait->settings.summary) {
    std::fputs("spillway: the program used no graphics card, so nothing was managed\n", stderr);
  }
  const std::string& path = g_wait->settings.stats_path;
  if (time_of(path) != g_wait->statistics_written)
    return true;  // by a process that this one started
  runtime::Statistics nothing;
  nothing.mode = g_wait->settings.effective_mode();
  return runtime::write_statistics(path, runtime::to_json(nothing));
}

}  // namespace

CardBudget card_budget_of(const runtime::Settings& settings) {
  if (settings.budget_of != runtime::BudgetDevice::kCuda && !settings.names_no_device()) {
    return CardBudget::kNone;
  }
  return settings.effective_mode() == runtime::Mode::kOff ? CardBudget::kOff : CardBudget::kYes;
}

void await_card(const runtime::Settings& stated, int (*begin)()) {
  if (g_wait != nullptr) return;
  runtime::Settings settings = Watch::checked(stated);
  if (begin != nullptr) cuda::require_allocator();
  auto* const wait = new Wait;
  wait->settings = std::move(settings);
  wait->statistics_written = time_of(wait->settings.stats_path);
  wait->process = ::getpid();
  if (!stated.status_path.empty()) {
    wait->page = runtime::StatusMapping::open(stated.status_path);
    wait->slot = wait->page.claim_slot();
    // A program that ran in this process before may have left its counters there.
    if (wait->slot != nullptr && wait->slot->started_ns == 0) wait->slot->waits = 1;
  }
  g_wait = wait;
  runtime::write_at_exit(write_unused);
  if (begin != nullptr) cuda::await_first_use(begin);
}

void end_waiting_for_card() {
  if (!is_of_this_process()) return;
  g_wait->refused = false;
  if (g_wait->slot != nullptr) g_wait->slot->waits = g_wait->slot->unwritten = 0;
}

void refuse_card() {
  end_waiting_for_card();
  if (!is_of_this_process()) return;
  g_wait->refused = true;
  if (g_wait->slot == nullptr) return;
  g_wait->slot->unwritten = 1;
  g_wait->slot->ending = static_cast<std::uint32_t>(runtime::Ending::kOther);
}

}  // namespace spillway::torch
