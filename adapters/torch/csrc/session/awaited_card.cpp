// SPDX-License-Identifier: Apache-2.0
#include "session/awaited_card.hpp"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "cuda/allocator_hook.hpp"
#include "session/engines.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/output_files.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::torch {

namespace {

struct Wait {
  runtime::Settings settings;
  runtime::StatusMapping page;
  runtime::StatusSlot* slot = nullptr;
  pid_t process = 0;  // that waits; what it forks leaves its files and its slot alone
};
Wait* g_wait = nullptr;  // never destroyed: used at exit

bool write_unused() {
  if (Engines::made() != nullptr || ::getpid() != g_wait->process) return true;
  if (g_wait->settings.summary) {
    std::fputs("spillway: the program used no graphics card, so nothing was managed\n", stderr);
  }
  runtime::Statistics nothing;
  nothing.mode = g_wait->settings.effective_mode();
  return runtime::write_statistics(g_wait->settings.stats_path, runtime::to_json(nothing));
}

}  // namespace

bool may_be_of_a_card(const runtime::Settings& settings) {
  if (settings.effective_mode() == runtime::Mode::kOff) return false;
  return settings.budget_of == runtime::BudgetDevice::kCuda || settings.leaves_device_open();
}

void await_card(const runtime::Settings& stated) {
  if (g_wait != nullptr) return;
  runtime::Settings settings = Watch::checked(stated);
  cuda::require_allocator();
  g_wait = new Wait{.settings = std::move(settings), .page = {}, .process = ::getpid()};
  if (!stated.status_path.empty()) {
    g_wait->page = runtime::StatusMapping::open(stated.status_path);
    g_wait->slot = g_wait->page.claim_slot();
    // A program that ran in this process before may have left its counters there.
    if (g_wait->slot != nullptr && g_wait->slot->started_ns == 0) g_wait->slot->waits = 1;
  }
  runtime::write_at_exit(write_unused);
}

void end_waiting_for_card() {
  if (g_wait != nullptr && g_wait->slot != nullptr && ::getpid() == g_wait->process) {
    g_wait->slot->waits = 0;
  }
}

}  // namespace spillway::torch
