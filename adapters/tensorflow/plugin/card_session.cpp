// SPDX-License-Identifier: Apache-2.0
#include "card_session.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "final_report.hpp"
#include "rewrite.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/output_files.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::tf {
namespace {

using runtime::BudgetSpec;
using runtime::Mode;
using runtime::now_ns;

std::atomic<CardSession*> session{nullptr};

// Page-locked memory is taken from everybody: the share that a card's engine leaves too
// (docs/settings.md).
constexpr double kHostShare = 0.60;
// The framework takes its limit in these.
constexpr Bytes kLeastBudget = kMiB;

void refuse_what_is_not_there(const runtime::Settings& settings) {
  const auto refuse = [](bool asked, const char* what) {
    if (asked) {
      throw UserError(
          fmt::format("TensorFlow does not have {} for a budget of a card: unset it.", what));
    }
  };
  refuse(settings.effective_mode() == Mode::kRecord, "SPILLWAY_MODE=record");
  refuse(settings.disk_budget.has_value(), "SPILLWAY_DISK_BUDGET");
  refuse(!settings.spool_dir.empty(), "SPILLWAY_SPOOL_DIR");
  refuse(settings.io != runtime::IoMethod::kAuto, "SPILLWAY_IO");
  refuse(settings.emulate_device.has_value(), "SPILLWAY_EMULATE_DEVICE");
  refuse(settings.overbook, "SPILLWAY_OVER=allow");
  refuse(!settings.keep_ops.empty(), "SPILLWAY_KEEP_OPS");
  refuse(!settings.planner.empty(), "SPILLWAY_PLANNER");
  refuse(!settings.plan_cache.empty(), "SPILLWAY_PLAN_CACHE");
}

Bytes find_budget(const BudgetSpec& spec) {
  if (spec.kind != BudgetSpec::Kind::kBytes) {
    throw UserError(
        "SPILLWAY_BUDGET: TensorFlow's limit for a card is a number of bytes, and Spillway asks no "
        "card there how much it has. Give one such as cuda:8GiB.");
  }
  if (spec.bytes < kLeastBudget) {
    throw UserError(
        fmt::format("SPILLWAY_BUDGET: {} is too little: TensorFlow limits a card in "
                    "whole MiB. Give 1 MiB or more.",
                    to_string(spec.bytes)));
  }
  return spec.bytes;
}

Bytes find_host_budget(const runtime::Settings& settings) {
  const runtime::MachineMemory machine = runtime::measure_memory(runtime::local_world_size(), {});
  if (settings.host_budget) {
    return runtime::resolve_budget(*settings.host_budget, machine, "SPILLWAY_HOST_BUDGET");
  }
  return {static_cast<std::uint64_t>(kHostShare * static_cast<double>(machine.available.count)) /
          machine.local_processes};
}

bool always_copies(const runtime::Settings& settings) {
  const Mode mode = settings.effective_mode();
  return mode == Mode::kFuzz || mode == Mode::kVerify;
}

}  // namespace

CardSession* CardSession::get() { return session.load(std::memory_order_acquire); }

CardSession::CardSession(const runtime::Settings& settings, Bytes budget, Bytes host_budget)
    : settings_(settings),
      started_(now_ns()),
      standstill_(now_ns),
      memory_(budget),
      copies_(host_budget),
      table_(
          {.budget = budget,
           .smallest = settings.effective_mode() == Mode::kFuzz ? Bytes{1} : settings.min_size,
           .always_copy = always_copies(settings)},
          [this] { return memory_.take_peak(); },
          [this](std::size_t graph, std::int64_t step) { begin_step(graph, step); }),
      troubles_(table_, "on the card"),
      graphs_(table_, [] { return RewriteOptions{.pairs = {.placement = Placement::kCard}}; }),
      waiting_(copies_, table_, standstill_, [this](const std::string& reason) { note(reason); }),
      reporter_(std::make_unique<StatusReporter>(settings, [this] { return figures(); })) {}

void CardSession::note(const std::string& why_it_stays) {
  if (why_it_stays.find(kOtherBytes) != std::string::npos) {
    troubles_.note_unsound(why_it_stays);
  } else {
    troubles_.note_stays(why_it_stays);
  }
}

void CardSession::start(const runtime::Settings& stated) {
  refuse_what_is_not_there(stated);
  const runtime::Settings settings = runtime::with_checked_outputs(stated);
  const Bytes budget = find_budget(settings.budget.value());
  arm_faults(settings.faults);
  session.store(new CardSession(settings, budget, find_host_budget(settings)),
                std::memory_order_release);
  runtime::write_at_exit([] { return get()->report(); });
}

void CardSession::begin_step(std::size_t graph, std::int64_t step) {
  const CardFigures moved = copies_.figures();
  steps_.begin(graph, step, now_ns(), moved.out + moved.in);
}

RunFigures CardSession::figures() {
  const CardFigures copies = copies_.figures();
  return {.memory = memory_.usage(),
          .store = {.host = copies.host, .host_budget = copies.host_budget},
          .moved = {.stored_on_host = copies.out,
                    .loaded_from_host = copies.in,
                    .failed = copies.failed},
          .movers = {},
          .steps = steps_.figures(),
          .stall = blocked_ns_.load(),
          .blocked = blocked_ns_.load(),
          .transfers = "device context",
          .planner = ""};
}

std::string CardSession::statistics_json() {
  const MemoryUsage memory = memory_.usage();
  const CardFigures copies = copies_.figures();
  const SwapTableState table = table_.state();
  const StepFigures steps = steps_.figures();
  const GraphCounts graphs = graphs_.counts();
  return nlohmann::json{{"mode", runtime::to_string(settings_.effective_mode())},
                        {"device", "GPU:0"},
                        {"budget_bytes", memory.budget.count},
                        {"live_bytes", memory.live.count},
                        {"peak_live_bytes", memory.peak_live.count},
                        {"host_bytes", copies.host.count},
                        {"host_budget_bytes", copies.host_budget.count},
                        {"evicted_bytes", copies.out.count},
                        {"fetched_bytes", copies.in.count},
                        {"failed_copies", copies.failed},
                        {"checksums_compared", copies.checked},
                        {"stall_ns", blocked_ns_.load()},
                        {"blocked_ns", blocked_ns_.load()},
                        {"steps", steps.steps},
                        {"last_step_ns", steps.last_ns},
                        {"last_step_moved_bytes", steps.moved_in_last.count},
                        {"elapsed_ns", now_ns() - started_},
                        {"graphs_rewritten", graphs.rewritten},
                        {"graphs_left", graphs.left_in_all()},
                        {"left_because", graphs.left_because()},
                        {"pairs", table.holes},
                        {"pairs_used", table.used},
                        {"pairs_passing", table.passing},
                        {"plan_changes", table.changes},
                        {"gave_up_passing", table.gave_up}}
      .dump(2);
}

std::string CardSession::summary() {
  const MemoryUsage memory = memory_.usage();
  const CardFigures copies = copies_.figures();
  const SwapTableState table = table_.state();
  const GraphCounts graphs = graphs_.counts();
  const std::string text = fmt::format(
      "spillway: on GPU:0 peak {} of {}; {} graphs rewritten with {} pairs, {} used, {} of them "
      "passing; {} swapped out, {} swapped in; {} checksums compared\n",
      to_string(memory.peak_live), to_string(memory.budget), graphs.rewritten, table.holes,
      table.used, table.passing, to_string(copies.out), to_string(copies.in), copies.checked);
  return text + with_our_name(describe(graphs.left));
}

bool CardSession::report() {
  if (::getpid() != pid_) return true;
  if (settings_.summary) std::fputs(summary().c_str(), stderr);
  const bool written = runtime::write_statistics(settings_.stats_path, statistics_json());
  reporter_->end(!written, describe(graphs_.counts().left));
  return written;
}

}  // namespace spillway::tf
