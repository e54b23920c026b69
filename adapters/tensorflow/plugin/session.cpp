// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "graph_def.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/base/output_path.hpp"
#include "spillway/machine/this_processor.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::tf {
namespace {

using runtime::Mode;
using runtime::now_ns;

std::atomic<Session*> session{nullptr};

void refuse_what_is_not_there(const runtime::Settings& settings) {
  const auto refuse = [](bool asked, const char* what) {
    if (asked) throw UserError(fmt::format("{} is not there for TensorFlow yet: unset it.", what));
  };
  refuse(settings.emulate_device.has_value(), "SPILLWAY_EMULATE_DEVICE");
  refuse(settings.overbook, "SPILLWAY_OVER=allow");
  refuse(!settings.trace_path.empty() && settings.effective_mode() != Mode::kRecord,
         "SPILLWAY_TRACE without SPILLWAY_MODE=record");
  refuse(!settings.keep_ops.empty(), "SPILLWAY_KEEP_OPS");
}

Bytes find_budget(const runtime::Settings& settings) {
  const runtime::MachineMemory machine = runtime::measure_memory(1, {});
  return settings.budget ? runtime::resolve_budget(*settings.budget, machine, "budget")
                         : machine.total;
}

runtime::TieredStoreOptions store_options(const runtime::Settings& settings) {
  runtime::TieredStoreOptions options;
  if (settings.host_budget) {
    options.host_budget = runtime::resolve_budget(*settings.host_budget,
                                                  runtime::measure_memory(1, {}), "host budget");
  }
  options.spool.directory = settings.spool_dir;
  options.spool.warn = runtime::warn_once;
  if (settings.disk_budget) {
    options.spool.budget = runtime::resolve_budget(
        *settings.disk_budget, runtime::measure_disk(settings.spool_dir, 1), "disk budget");
  }
  const Mode mode = settings.effective_mode();
  options.verify = mode == Mode::kVerify || mode == Mode::kFuzz;
  return options;
}

runtime::Poison poison_in(const runtime::Settings& settings) {
  return settings.effective_mode() == Mode::kFuzz ? runtime::Poison::kYes : runtime::Poison::kNo;
}

void end_fork(bool in_child) {
  Session* const ours = Session::get();
  ours->memory().after_fork(in_child);
  if (ours->record() != nullptr) ours->record()->after_fork();
  ours->waiting().after_fork();
  ours->store().after_fork(in_child);
}

}  // namespace

Session* Session::get() { return session.load(std::memory_order_acquire); }

Session::Session(const runtime::Settings& settings, Bytes budget)
    : settings_(settings),
      fuzz_(settings.effective_mode() == Mode::kFuzz),
      memory_(budget, poison_in(settings)),
      standstill_(now_ns),
      table_(
          {.budget = budget,
           .smallest = fuzz_ ? Bytes{1} : settings.min_size,
           .always_copy = fuzz_ || settings.effective_mode() == Mode::kVerify},
          [this] { return memory_.take_peak(); }, [this](std::size_t graph) { begin_step(graph); }),
      store_(std::make_unique<SwapStore>(store_options(settings),
                                         runtime::make_transfers(settings.io), memory_)),
      waiting_(std::make_unique<WaitingTensors>(
          *store_, table_, standstill_, [this](const std::string& reason) { note_stays(reason); })),
      reporter_(std::make_unique<StatusReporter>(settings, [this] { return figures(); })) {
  memory_.set_victims([this](Bytes bytes) { waiting_->make_room(bytes); });
  if (settings.effective_mode() != Mode::kRecord || settings.trace_path.empty()) return;
  require_writable(settings_.trace_path, "SPILLWAY_TRACE");
  settings_.trace_path = std::filesystem::absolute(settings_.trace_path).lexically_normal();
  record_ = std::make_unique<StepRecord>(
      [this](const std::byte* pointer) { return memory_.owns(pointer); });
  memory_.set_observer(*record_);
}

void Session::start(const runtime::Settings& settings) {
  refuse_what_is_not_there(settings);
  arm_faults(settings.faults);
  session.store(new Session(settings, find_budget(settings)), std::memory_order_release);
  ::pthread_atfork(
      [] {
        get()->store().before_fork();
        get()->waiting().before_fork();
        get()->memory().before_fork();
        if (get()->record() != nullptr) get()->record()->before_fork();
      },
      [] { end_fork(false); }, [] { end_fork(true); });
  std::atexit([] { get()->report(); });
}

std::optional<std::string> Session::rewrite(std::string_view graph,
                                            const OpCatalogue& catalogue) noexcept {
  std::string reason;
  try {
    // Numbers are given out before it is known how many pairs there will be: one graph at a time.
    const std::lock_guard lock(mutex_);
    RewriteResult result =
        rewrite_graph(graph, catalogue, {.pairs = {}, .first_hole = table_.state().holes});
    if (settings_.effective_mode() == Mode::kRecord) {
      if (result.rewritten && record_) record_->watch(node_names(graph));
      return std::nullopt;
    }
    if (result.rewritten) {
      std::vector<bool> in_loop;
      for (const PairName& pair : result.rewritten->pairs) {
        in_loop.insert(in_loop.end(), pair.holes, pair.in_loop);
      }
      table_.add_holes(in_loop);
      ++graphs_;
      return std::move(result.rewritten->graph);
    }
    ++left_[result.reason];
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spillway: a graph is left as it was: %s\n", error.what());
  }
  return std::nullopt;
}

void Session::begin_step(std::size_t graph) {
  const runtime::StoreStatistics moved = store_->statistics();
  steps_.begin(graph, now_ns(),
               moved.stored_on_host + moved.stored_on_disk + moved.loaded_from_host +
                   moved.loaded_from_disk);
}

RunFigures Session::figures() const {
  return {.memory = memory_.usage(),
          .store = store_->usage(),
          .moved = store_->statistics(),
          .steps = steps_.figures(),
          .stall = memory_.usage().waited_ns + standstill_.total(),
          .transfers = store_->transfers()};
}

void Session::note_stays(const std::string& reason) {
  if (reason.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!stays_.empty()) return;
    stays_ = reason;
  }
  std::fprintf(stderr, "spillway: a tensor that was to leave stays in memory: %s\n",
               reason.c_str());
}

void Session::note_failure(const std::string& reason) {
  table_.give_up();
  if (failed_.exchange(true)) return;
  std::fprintf(stderr, "spillway: %s\n", reason.c_str());
}

void Session::note_overshoot(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  overshoot_ = reason;
  overshot_.store(true);
}

std::string Session::take_overshoot() {
  if (!overshot_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  return overshot_.exchange(false) ? overshoot_ : std::string();
}

std::string Session::statistics_json() {
  const MemoryUsage memory = memory_.usage();
  const runtime::StoreUsage store = store_->usage();
  const runtime::StoreStatistics moved = store_->statistics();
  const SwapTableState table = table_.state();
  const StepFigures steps = steps_.figures();
  const std::lock_guard lock(mutex_);
  std::uint64_t left = 0;
  for (const auto& [reason, count] : left_) left += count;
  return nlohmann::json{{"mode", runtime::to_string(settings_.effective_mode())},
                        {"budget_bytes", memory.budget.count},
                        {"device_bytes", memory.held.count},
                        {"peak_device_bytes", memory.peak_held.count},
                        {"overshoot_bytes", saturating_sub(memory.peak_held, memory.budget).count},
                        {"live_bytes", memory.live.count},
                        {"peak_live_bytes", memory.peak_live.count},
                        {"host_bytes", store.host.count},
                        {"disk_bytes", store.disk.count},
                        {"evicted_bytes", (moved.stored_on_host + moved.stored_on_disk).count},
                        {"fetched_bytes", (moved.loaded_from_host + moved.loaded_from_disk).count},
                        {"failed_copies", moved.failed},
                        {"allocations", memory.allocations},
                        {"waiting_allocations", memory.waits},
                        {"failed_allocations", memory.failures},
                        {"stall_ns", memory.waited_ns + standstill_.total()},
                        {"steps", steps.steps},
                        {"last_step_ns", steps.last_ns},
                        {"graphs_rewritten", graphs_},
                        {"graphs_left", left},
                        {"left_because", left_},
                        {"pairs", table.holes},
                        {"pairs_used", table.used},
                        {"pairs_passing", table.passing},
                        {"plan_changes", table.changes},
                        {"gave_up_passing", table.gave_up}}
      .dump(2);
}

std::string Session::summary() {
  const MemoryUsage memory = memory_.usage();
  const runtime::StoreStatistics moved = store_->statistics();
  const SwapTableState table = table_.state();
  const std::lock_guard lock(mutex_);
  return fmt::format(
      "spillway: peak {} of {}; {} graphs rewritten with {} pairs, {} used, {} of them passing; "
      "{} swapped out, {} swapped in; {} allocations waited, {} failed\n",
      to_string(memory.peak_held), to_string(memory.budget), graphs_, table.holes, table.used,
      table.passing, to_string(moved.stored_on_host + moved.stored_on_disk),
      to_string(moved.loaded_from_host + moved.loaded_from_disk), memory.waits, memory.failures);
}

void Session::report() {
  if (::getpid() != pid_) return;
  if (settings_.summary) std::fputs(summary().c_str(), stderr);
  const bool written = write_statistics();
  reporter_->end(!(write_recorded_step() && written));
}

bool Session::write_recorded_step() {
  if (!record_) return true;
  std::optional<Trace> trace = record_->take();
  if (!trace) return true;  // no step, which is no failure of ours
  trace->run_peak = memory_.usage().peak_live;
  trace->framework = framework_;
  trace->machine = this_processor();
  try {
    write_trace(*trace, settings_.trace_path);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spillway: the trace was not written: %s\n", error.what());
    return false;
  }
}

bool Session::write_statistics() {
  if (settings_.stats_path.empty()) return true;
  std::ofstream file(settings_.stats_path);
  file << statistics_json() << '\n';
  file.flush();
  if (file) return true;
  std::fprintf(stderr, "spillway: the statistics were not written to %s: %s\n",
               settings_.stats_path.c_str(), std::strerror(errno));
  return false;
}

}  // namespace spillway::tf
