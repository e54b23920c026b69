// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/machine/this_processor.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/output_files.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "spillway/trace/trace_io.hpp"
#include "variable_ops.hpp"

namespace spillway::tf {
namespace {

using runtime::Mode;
using runtime::now_ns;

std::atomic<Session*> session{nullptr};

// Variables fill one part in so many of the budget; those that come then lie in the store.
constexpr std::uint64_t kPartForVariables = 4;

// Of copies' ends in fuzz. About as long as a small op and a small copy, so that either may come
// first; a step of a test's program has hundreds of them, most beside each other.
constexpr std::chrono::milliseconds kLongestDelay{2};

// Before anything is made: what fails later leaves threads behind.
void refuse_what_cannot_be(const runtime::Settings& settings) {
  const auto refuse = [](bool asked, const char* what) {
    if (asked) throw UserError(fmt::format("TensorFlow does not have {} yet: unset it.", what));
  };
  refuse(settings.emulate_device.has_value(), "SPILLWAY_EMULATE_DEVICE");
  refuse(settings.overbook, "SPILLWAY_OVER=allow");
  refuse(!settings.keep_ops.empty(), "SPILLWAY_KEEP_OPS");
  const bool plans = choose_planner(settings.planner).has_value();
  if (!settings.plan_cache.empty() && !plans) {
    throw UserError(
        "SPILLWAY_PLAN_CACHE: SPILLWAY_PLANNER=none makes no plans to keep. Unset one of them.");
  }
}

Bytes find_budget(const runtime::Settings& settings) {
  const runtime::MachineMemory machine = runtime::measure_memory(runtime::local_world_size(), {});
  return settings.budget ? runtime::resolve_budget(*settings.budget, machine, "SPILLWAY_BUDGET")
                         : machine.total;
}

runtime::TieredStoreOptions store_options(const runtime::Settings& settings) {
  const std::uint32_t processes = runtime::local_world_size();
  runtime::TieredStoreOptions options;
  if (settings.host_budget) {
    options.host_budget = runtime::resolve_budget(
        *settings.host_budget, runtime::measure_memory(processes, {}), "SPILLWAY_HOST_BUDGET");
  }
  options.spool.directory = settings.spool_dir;
  options.spool.warn = runtime::warn_once;
  options.spool.sharers = processes;
  if (settings.disk_budget) {
    options.spool.budget = runtime::resolve_budget(
        *settings.disk_budget, runtime::measure_disk(settings.spool_dir, processes),
        "SPILLWAY_DISK_BUDGET");
  }
  const Mode mode = settings.effective_mode();
  options.verify = mode == Mode::kVerify || mode == Mode::kFuzz;
  return options;
}

runtime::Poison poison_in(const runtime::Settings& settings) {
  return settings.effective_mode() == Mode::kFuzz ? runtime::Poison::kYes : runtime::Poison::kNo;
}

std::unique_ptr<DelayedEnds> delays_in(const runtime::Settings& settings) {
  if (settings.effective_mode() != Mode::kFuzz) return nullptr;
  // Others in each run. No seed would bring a run back, since threads decide which copy ends first.
  return std::make_unique<DelayedEnds>(static_cast<std::uint64_t>(now_ns()), kLongestDelay);
}

// What the framework and we took to build a graph is free by its first run, and the C library keeps
// it: 70 MiB of 744 with 2,184 pairs (benchmarks/programs_keras/experts.py with 32 experts).
void give_back_heap() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

// A recorded step is stock's.
std::optional<PlannerChoice> planner_in(const runtime::Settings& settings) {
  if (settings.effective_mode() == Mode::kRecord) return std::nullopt;
  std::optional<PlannerChoice> choice = choose_planner(settings.planner);
  // To verify is to compare what was copied.
  const bool verifies = settings.effective_mode() == Mode::kVerify && settings.planner.empty();
  if (choice && (verifies || settings.recompute == runtime::Recompute::kOff)) choice->twins = false;
  return choice;
}

constexpr const char* kShowsNoOps =
    "on a machine with a driver for cards a TensorFlow that is built for these shows no op of its "
    "processor. Set CUDA_VISIBLE_DEVICES=-1 if the program uses no card";

constexpr double kDiskRate = 1e9;  // bytes per second, before anything was copied

}  // namespace

Session* Session::get() { return session.load(std::memory_order_acquire); }

Session::Session(const runtime::Settings& settings, Bytes budget)
    : settings_(settings),
      started_(now_ns()),
      planner_(planner_in(settings)),
      fuzz_(settings.effective_mode() == Mode::kFuzz),
      memory_(budget, poison_in(settings)),
      standstill_(now_ns),
      table_(
          {.budget = budget,
           .smallest = fuzz_ ? Bytes{1} : settings.min_size,
           .least = fuzz_ ? Bytes{1} : settings.least_size,
           .always_copy = fuzz_ || settings.effective_mode() == Mode::kVerify},
          [this] { return memory_.take_peak(); },
          [this](std::size_t graph, std::int64_t step) { begin_step(graph, step); }),
      troubles_(table_, "in memory"),
      graphs_(table_, [this] { return rewrite_options(); }),
      store_(std::make_unique<SwapStore>(store_options(settings),
                                         runtime::make_transfers(settings.io), memory_,
                                         delays_in(settings))),
      waiting_(std::make_unique<WaitingTensors>(
          *store_, table_, standstill_,
          [this](const std::string& reason) { troubles_.note_stays(reason); })),
      variables_(std::make_unique<Variables>(
          VariablesOptions{.in_memory = variables_in_memory(budget),
                           .smallest = fuzz_ ? Bytes{1} : settings.min_size,
                           .always_leave = fuzz_},
          memory_, store_->tiers(),
          [this](const std::string& reason) { troubles_.note_stays(reason); })) {
  memory_.set_holders([this] { return holders(); });
  memory_.set_victims([this](Bytes bytes, Victims victims) { evict(bytes, victims); });
  if (settings.effective_mode() == Mode::kRecord) {
    start_recording();
  } else {
    start_planning(budget);
  }
  // Its thread looks at all of it.
  reporter_ = std::make_unique<StatusReporter>(settings, [this] { return figures(); });
}

void Session::start_recording() {
  graphs_.only_record(nullptr);
  if (settings_.trace_path.empty()) return;
  record_ = std::make_unique<StepRecord>(
      [this](const std::byte* pointer) { return memory_.owns(pointer); });
  memory_.set_observer(*record_);
  graphs_.only_record(record_.get());
}

void Session::start_planning(Bytes budget) {
  if (!planner_) return;
  if (settings_.planner.empty()) settings_.planner = planner_->planner->name();
  if (table_.always_copies()) return;
  profiler_ = std::make_unique<RunProfiler>();
  memory_.set_observer(*profiler_);
  const auto rates = [this] {
    return CopyRates{.out = store_->out().bytes_per_second(kDiskRate),
                     .in = store_->in().bytes_per_second(kDiskRate)};
  };
  if (!settings_.plan_cache.empty()) {  // wherever the program goes
    settings_.plan_cache = std::filesystem::absolute(settings_.plan_cache).lexically_normal();
  }
  const PlanCache cache(settings_.plan_cache,
                        fmt::format("{} {} {} {} {}", settings_.planner, planner_->twins,
                                    swap_ins_block(), budget.count, settings_.min_size.count));
  plans_ = std::make_unique<PlanLoop>(
      PlanLoopOptions{.choice = *planner_,
                      .budget = budget,
                      .cache = cache,
                      .rates = rates,
                      .variables = [this] { return variables_->wanted(); },
                      .now = now_ns,
                      .obstacle = [this] { return knows_ops() ? "" : kShowsNoOps; }},
      *profiler_, table_);
  graphs_.set_plans(*plans_, *profiler_);
}

OpWatcher* Session::watcher() {
  if (record_) return record_.get();
  return profiler_.get();
}

TimeNs Session::begins_to_block() {
  const TimeNs now = now_ns();
  if (profiler_) profiler_->begins_to_wait(now);
  return now;
}

void Session::has_blocked(TimeNs begun) {
  const TimeNs now = now_ns();
  if (profiler_) profiler_->has_waited(now);
  blocked_ns_.fetch_add(now - begun);
}

// Record mode watches the framework's memory, and nothing moves there.
Bytes Session::variables_in_memory(Bytes budget) const {
  if (settings_.effective_mode() == Mode::kRecord) {
    return {std::numeric_limits<std::uint64_t>::max()};
  }
  if (fuzz_ || (planner_ && planner_->variables_on_host)) return {};
  return {budget.count / kPartForVariables};
}

// A mapping is of whole pages, so in fuzz of a page and more.
Bytes Session::smallest_variable() const { return fuzz_ ? Bytes{4096} : settings_.min_size; }

// Variables first: those with the furthest next use are the optimizer's until the step ends, and
// the weights of the other end of the network.
void Session::evict(Bytes bytes, Victims victims) {
  Bytes made = variables_->make_room(bytes, Victims::kIdle);
  // Room that is coming may be that of a large one.
  const Smallest smallest =
      victims == Victims::kInUse || !memory_.room_expected() ? Smallest::kAny : Smallest::kOfTable;
  if (made < bytes) made += waiting_->make_room(bytes - made, smallest);
  if (made < bytes && victims == Victims::kInUse) {
    variables_->make_room(bytes - made, Victims::kInUse);
  }
}

void Session::start(const runtime::Settings& stated) {
  refuse_what_cannot_be(stated);
  const runtime::Settings settings = runtime::with_checked_outputs(stated);
  arm_faults(settings.faults);
  session.store(new Session(settings, find_budget(settings)), std::memory_order_release);
  ::pthread_atfork([] { get()->before_fork(); }, [] { get()->after_fork(false); },
                   [] { get()->after_fork(true); });
  runtime::write_at_exit([] { return get()->report(); });
}

// In the order in which a thread may take several: what is called with a lock held comes after it.
// Before all of them copies end, whose callbacks take any.
void Session::before_fork() {
  store_->pause();
  graphs_.before_fork();
  if (plans_) plans_->before_fork();
  store_->before_fork();
  waiting_->before_fork();
  table_.before_fork();
  clock_.before_fork();
  variables_->before_fork();
  before_fork_of_variable_ops();
  names_.before_fork();
  memory_.before_fork();
  if (record_) record_->before_fork();
  if (profiler_) profiler_->before_fork();
  steps_.before_fork();
  standstill_.before_fork();
  troubles_.before_fork();
}

void Session::after_fork(bool in_child) {
  troubles_.after_fork();
  standstill_.after_fork();
  steps_.after_fork();
  if (profiler_) profiler_->after_fork(in_child);
  if (record_) record_->after_fork();
  memory_.after_fork(in_child);
  names_.after_fork();
  after_fork_of_variable_ops();
  variables_->after_fork(in_child);
  clock_.after_fork();
  table_.after_fork();
  waiting_->after_fork();
  store_->after_fork(in_child);
  if (plans_) plans_->after_fork();
  graphs_.after_fork();
}

RewriteOptions Session::rewrite_options() const {
  RewriteOptions options{.pairs = {},
                         .smallest_constant = smallest_variable().count,
                         .order_updates = variables_->usage().bytes.count != 0};
  if (!planner_) return options;
  options.pairs = planner_->pairs;
  // A swap-in that waits for a clock may not hold a thread which the clock needs.
  if (!swap_ins_block()) options.trigger = Trigger::kClock;
  options.serialise_levels = planner_->serialise_levels;
  options.partition_nodes = planner_->partition_nodes;
  options.twins = planner_->twins;
  return options;
}

void Session::begin_step(std::size_t graph, std::int64_t step) {
  const runtime::StoreStatistics moved = store_->statistics();
  const bool first = steps_.begin(graph, step, now_ns(),
                                  moved.stored_on_host + moved.stored_on_disk +
                                      moved.loaded_from_host + moved.loaded_from_disk);
  if (first) give_back_heap();
  if (plans_) plans_->on_run(graph);
}

std::string Session::holders() const {
  const Bytes variables = variables_->usage().counted;
  const Bytes waiting = waiting_->held();
  const Bytes others = saturating_sub(memory_.usage().live, variables + waiting);
  return fmt::format(
      "Held: {} of variables in the store, {} of tensors that wait for a late user, {} of rounding "
      "and other tensors, which ops under way have or no pair moves.",
      to_string(variables), to_string(waiting), to_string(others));
}

std::int64_t Session::stall_ns() const {
  return memory_.usage().waited_ns + standstill_.total() + blocked_ns_.load();
}

RunFigures Session::figures() const {
  return {.memory = memory_.usage(),
          .store = store_->usage(),
          .moved = store_->statistics(),
          .movers = store_->top_movers(),
          .steps = steps_.figures(),
          .stall = stall_ns(),
          .blocked = blocked_ns_.load(),
          .transfers = store_->transfers(),
          .planner = plans_ ? plans_->planner() : ""};
}

FinalFigures Session::final_figures() {
  return {.mode = settings_.effective_mode(),
          .elapsed = now_ns() - started_,
          .run = figures(),
          .table = table_.state(),
          .variables = variables_->usage(),
          .plan = plans_ ? plans_->state() : PlanState{},
          .graphs = graphs_.counts()};
}

bool Session::report() {
  if (::getpid() != pid_) return true;
  const FinalFigures all = final_figures();
  if (settings_.summary) std::fputs(to_summary(all).c_str(), stderr);
  say_what_was_not_kept();
  bool written = runtime::write_statistics(settings_.stats_path, to_json(all));
  written &= write_recorded_step();
  reporter_->end(!written, to_notes(all));
  return written;
}

void Session::say_what_was_not_kept() {
  const std::string reason = plans_ ? plans_->state().not_kept : std::string();
  if (reason.empty()) return;
  std::fprintf(stderr,
               "spillway: a plan was not kept for the next run, which measures and plans anew: %s. "
               "Set SPILLWAY_PLAN_CACHE to a folder that can be written.\n",
               reason.c_str());
}

bool Session::write_recorded_step() {
  if (!record_) return true;
  std::optional<Trace> trace = record_->take();
  if (!trace) {  // no step, which is no failure of ours
    if (ops_hidden_) std::fprintf(stderr, "spillway: no step is recorded: %s.\n", kShowsNoOps);
    return true;
  }
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

}  // namespace spillway::tf
