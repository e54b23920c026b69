// SPDX-License-Identifier: Apache-2.0
// spillway_card_replay TRACE: what binds a step whose tensors move between a card and host memory?
//
// Replays a recorded step through the runtime's engine with the tiers of a card, over a card that
// is none: kernels last as long as the trace says, copies as long as a link takes, calls that map
// memory as long as a driver does, and the host spends on each op what a framework does. A row
// for each budget, a share of the step's peak of tensors, in units of the stock step: its kernels,
// or what the host spends on its ops, whichever is longer. The first row is what the replay makes
// of that without an engine, so what it adds of itself:
//
//     step      duration
//     bound     the longest of: kernels, the host's work, bytes / rate in each direction
//     out, in   bytes moved, as shares of the peak
//     again     bytes made again by the ops that made them, likewise
//     waits     time that ops and allocations waited in the engine
//     maps      time that calls of the driver for memory held the program's thread up
//     aside     the same of other threads
//     idle:     no kernel runs: one is launched and waits for a copy (copy), or none is (host)
//     beside    share of the copies' time in which kernels run
//
// Can show: in which order and how early things move, who waits for whom, and what a change of the
// engine's decisions does to that. Cannot show: times of a real card. All that is modelled is
// stretched (--stretch), what the engine's own code takes is not, so it looks cheaper than it is by
// that factor; --look-us puts back its dearest part, a look ahead. So do the pauses of 50 us
// between two looks at the device. There is one compute stream, whose queue has no end, and a copy
// has no latency.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "replayed_step.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "spillway/trace/trace_io.hpp"
#include "timed_card.hpp"

namespace spillway::replay {
namespace {

using runtime::BudgetSpec;
using runtime::Statistics;

// As the adapter has it for a card: PyTorch's allocator keeps what is smaller.
constexpr Bytes kSmallest = kMiB;
constexpr std::uint64_t kGranule = 2 << 20;  // of an H100

struct Options {
  std::string trace;
  std::vector<double> shares{0.5, 0.3};
  int steps = 10;
  int steps_before = 4;  // the engine knows the step after two
  CardTimes times;
  HostCosts costs;
  double look_us = 150;
  bool recompute = true;
};

struct Run {
  double duration = 0;  // of a step, in a real card's nanoseconds, as all below
  Busy busy;
  Statistics moved;  // in all steps
  Bytes peak{};
};

/// A card with all that a trace may need, and nothing behind its memory until somebody writes it.
class Card {
 public:
  explicit Card(const CardTimes& times)
      : device_({.memory = kGiB * 256,
                 .granule = kGranule,
                 .addresses = kGiB * 4096,
                 .lockable = kGiB * 512,
                 .longest_delay_us = 0}),
        timed_(device_, times) {}
  TimedCard& operator*() { return timed_; }
  void finish() { runtime::expect_done(device_, device_.synchronize(), "waiting for the end"); }
  void expect_no_complaint() {
    for (const std::string& complaint : device_.complaints()) throw UserError(complaint);
  }

 private:
  testing::ThreadDevice device_;
  TimedCard timed_;
};

Statistics difference(Statistics later, const Statistics& earlier) {
  later.moves.evicted = later.moves.evicted - earlier.moves.evicted;
  later.moves.fetched = later.moves.fetched - earlier.moves.fetched;
  later.moves.recomputed = later.moves.recomputed - earlier.moves.recomputed;
  later.moves.evictions -= earlier.moves.evictions;
  later.moves.fetches -= earlier.moves.fetches;
  later.stall_ns -= earlier.stall_ns;
  later.mapping_ns -= earlier.mapping_ns;
  return later;
}

/// Steps that are not counted, then those that are. `step` launches one.
template <class Step>
void measure(const Options& options, Card& card, Run& run, const Step& step) {
  for (int i = 0; i < options.steps_before; ++i) step();
  card.finish();
  (*card).begin_account();
  const TimeNs begin = runtime::now_ns();
  for (int i = 0; i < options.steps; ++i) step();
  card.finish();
  run.duration =
      static_cast<double>(runtime::now_ns() - begin) / (options.times.stretch * options.steps);
  run.busy = (*card).busy();
}

Run run_stock(const Options& options, const Trace& trace) {
  Card card(options.times);
  Run run;
  measure(options, card, run, [&] { launch_kernels(trace, *card, options.times, options.costs); });
  return run;
}

runtime::Settings settings(const Options& options, Bytes budget) {
  runtime::Settings result;
  result.recompute = options.recompute ? runtime::Recompute::kOn : runtime::Recompute::kOff;
  result.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = budget};
  result.host_budget = BudgetSpec{.kind = BudgetSpec::Kind::kPercent, .percent = 90};
  result.mode = runtime::Mode::kEnforce;
  return result;
}

Run run_managed(const Options& options, const Trace& trace, Bytes budget) {
  Card card(options.times);
  testing::FakeFramework framework;
  runtime::DeviceDriver& driver = *card;
  runtime::Engine engine(framework, std::make_unique<runtime::CardTiers>(
                                        std::make_unique<testing::ForwardingDriver>(driver)));
  engine.start(settings(options, budget));
  Run run;
  {
    ReplayedStep step(trace, *card, engine, options.times, options.costs, kSmallest);
    Statistics before;
    int steps = 0;
    measure(options, card, run, [&] {
      if (steps++ == options.steps_before) before = engine.statistics();
      step.run();
    });
    const Statistics after = engine.statistics();
    run.peak = after.peak_live;
    run.moved = difference(after, before);
  }
  runtime::renew_this_thread_frames();
  engine.stop();
  card.expect_no_complaint();
  return run;
}

/// Without an engine, but for what a start takes.
double stock_step(const Options& options, const Trace& trace) {
  double kernels = 0;
  for (const TimeNs duration : trace.ops.duration_ns) kernels += static_cast<double>(duration);
  return std::max(kernels,
                  static_cast<double>(options.costs.op) * static_cast<double>(trace.ops.size()));
}

/// No order of things makes the step shorter.
double bound(const Options& options, const Trace& trace, const Run& run) {
  const double count = options.steps;
  const auto link = [&](Bytes bytes) {
    return static_cast<double>(bytes.count) / count / options.times.one_way * 1e9;
  };
  const double host = static_cast<double>(options.costs.op + options.costs.hook) *
                      static_cast<double>(trace.ops.size());
  return std::max({stock_step(options, trace), host, link(run.moved.moves.evicted),
                   link(run.moved.moves.fetched)});
}

void print_row(const Options& options, const Trace& trace, const std::string& budget,
               const Run& run, Bytes peak) {
  const double stock = stock_step(options, trace);
  const double all = stock * options.times.stretch * options.steps;
  const auto in_stock = [&](TimeNs time) { return static_cast<double>(time) / all; };
  const auto of_peak = [&](Bytes bytes) {
    return static_cast<double>(bytes.count) / options.steps / static_cast<double>(peak.count);
  };
  const auto moves = (run.moved.moves.evictions + run.moved.moves.fetches) /
                     static_cast<std::uint64_t>(options.steps);
  const double copies = static_cast<double>(run.busy.out + run.busy.in - run.busy.both_ways);
  const double beside =
      copies == 0 ? 0 : static_cast<double>(run.busy.copies_beside_kernels) / copies;
  fmt::print(
      "{:>6} {:>6.2f} {:>6.2f} {:>5.2f} {:>5.2f} {:>6.2f} {:>6} {:>6.2f} {:>5.2f} {:>6.2f} "
      "{:>11.2f} {:>5.2f} {:>7.2f}\n",
      budget, run.duration / stock, bound(options, trace, run) / stock,
      of_peak(run.moved.moves.evicted), of_peak(run.moved.moves.fetched),
      of_peak(run.moved.moves.recomputed), moves, in_stock(run.moved.stall_ns),
      in_stock(run.busy.calls), in_stock(run.busy.calls_beside), in_stock(run.busy.awaited),
      in_stock(run.busy.nothing_launched), beside);
  std::fflush(stdout);
}

int replay(const Options& options) {
  const Trace trace = read_trace(options.trace);
  if (options.look_us != 0) {
    arm_faults(fmt::format("engine.look_ahead=delay:{}us@1+",
                           static_cast<int>(options.look_us * (options.times.stretch - 1))));
  }
  const Run stock = run_stock(options, trace);
  const Run fits = run_managed(options, trace, kGiB * 128);
  fmt::print("{} ops, stock step {:.1f} ms, peak of tensors {}; {} steps, stretched {} times\n\n",
             trace.ops.size(), stock_step(options, trace) / 1e6, to_string(fits.peak),
             options.steps, options.times.stretch);
  fmt::print(
      "budget   step  bound   out    in  again  moves  waits  maps  aside  idle: copy  host  "
      "beside\n");
  print_row(options, trace, "none", stock, fits.peak);
  print_row(options, trace, "fits", fits, fits.peak);
  for (const double share : options.shares) {
    const auto budget = static_cast<std::uint64_t>(share * static_cast<double>(fits.peak.count));
    print_row(options, trace, fmt::format("{:.0f}%", share * 100),
              run_managed(options, trace, {budget}), fits.peak);
  }
  return 0;
}

}  // namespace
}  // namespace spillway::replay

int main(int count, char** arguments) {
  using spillway::replay::Options;
  Options options;
  double op_us = 12;
  double hook_us = 5;
  double access_us = static_cast<double>(options.times.allow_access) / 1e3;
  double gigabytes = 55;
  CLI::App app{"Replays a recorded step under budgets of a card that is none."};
  app.add_option("trace", options.trace, "as spillway record writes it")->required();
  app.add_option("--shares", options.shares, "budgets, as shares of the peak")->delimiter(',');
  app.add_option("--steps", options.steps, "that are measured")->check(CLI::PositiveNumber);
  app.add_option("--stretch", options.times.stretch, "how much longer all lasts");
  app.add_option("--recompute", options.recompute, "whether storages may be made again");
  app.add_option("--op-us", op_us, "what the framework spends on an op");
  app.add_option("--hook-us", hook_us, "what the adapter spends on an op");
  app.add_option("--look-us", options.look_us, "what a look ahead takes");
  app.add_option("--access-us", access_us, "what it takes to allow access to mapped memory");
  app.add_option("--gigabytes", gigabytes, "a second, over the link, one way");
  CLI11_PARSE(app, count, arguments);
  options.costs = {.op = static_cast<spillway::TimeNs>(op_us * 1e3),
                   .hook = static_cast<spillway::TimeNs>(hook_us * 1e3)};
  options.times.allow_access = static_cast<spillway::TimeNs>(access_us * 1e3);
  options.times.both_ways *= gigabytes * 1e9 / options.times.one_way;
  options.times.one_way = gigabytes * 1e9;
  try {
    return spillway::replay::replay(options);
  } catch (const std::exception& failure) {
    fmt::print("FAILED: {}\n", failure.what());
    return 1;
  }
}
