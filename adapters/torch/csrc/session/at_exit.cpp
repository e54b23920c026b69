// SPDX-License-Identifier: Apache-2.0
#include "session/at_exit.hpp"

#include <atomic>
#include <cstdio>
#include <optional>
#include <string>

#include "session/watch.hpp"
#include "spillway/machine/this_processor.hpp"
#include "spillway/runtime/output_files.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::torch {

namespace {

// True if it was written, or there is nothing to write: too few steps, which is no failure of ours.
bool write_recorded_step(const runtime::Engine& engine, const runtime::Statistics& statistics,
                         const std::string& path) {
  std::optional<Trace> trace = engine.trace();
  if (!trace) return true;
  trace->run_peak = statistics.peak_device;
  trace->run_floor = statistics.floor;
  trace->framework = "torch " TORCH_VERSION;
  const Card* const card = Engines::get().card();
  trace->machine = card != nullptr ? card->name() : this_processor();
  try {
    write_trace(*trace, path);
    return true;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "spillway: %s\n", error.what());
    return false;
  }
}

// Once, however many ends announce themselves. True unless a file could not be written.
bool write_all() {
  static std::atomic<bool> done{false};
  if (done.exchange(true)) return true;
  runtime::Engine& engine = main_engine();
  const runtime::Settings& settings = Watch::get().settings();
  const runtime::Statistics statistics = engine.statistics();
  bool written = runtime::write_statistics(settings.stats_path, runtime::to_json(statistics));
  if (!settings.trace_path.empty()) {
    written &= write_recorded_step(engine, statistics, settings.trace_path);
  }
  if (settings.summary) {
    std::fputs(runtime::to_summary(statistics).c_str(), stderr);
    if (Engines::get().card() != nullptr) {
      std::fprintf(stderr,
                   "spillway: the budget is of the card's memory: %s\n"
                   "spillway: of it %s are the context, libraries and small tensors\n",
                   statistics.pages.c_str(), to_string(statistics.unmanaged).c_str());
    }
  }
  engine.note_end(runtime::Ending::kOther, !written);
  return written;
}

}  // namespace

void write_at_exit() { runtime::write_at_exit(write_all); }

void end_process(runtime::Ending ending, bool now) {
  main_engine().note_end(ending, false);
  if (now) static_cast<void>(write_all());
}

}  // namespace spillway::torch
