// SPDX-License-Identifier: Apache-2.0
#include "run/run_command.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "machine/machine_facts.hpp"
#include "machine/machine_lookup.hpp"
#include "process/recording_run.hpp"
#include "run/run_json.hpp"
#include "run/run_outputs.hpp"
#include "run/status_line.hpp"
#include "run/status_totals.hpp"
#include "run/summary.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/device/cuda_library.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"
#include "text/quantity_text.hpp"
#include "text/terminal_row.hpp"

namespace spillway::tools {
namespace {

using runtime::NameValue;

// argparse and Spillway itself end with 2 after a mistake they have already explained.
constexpr int kMistakeExplained = 2;
constexpr int kNotWritten = 1;

// A reader that has gone away is no reason to change how the program's end is reported, so failures
// are ignored, which fmt's own printing does not do.
void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

void print_line(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void set_variable(std::vector<NameValue>& environment, const std::string& name,
                  const std::string& value) {
  const auto same = std::find_if(environment.begin(), environment.end(),
                                 [&](const NameValue& pair) { return pair.first == name; });
  if (same != environment.end()) {
    same->second = value;
  } else {
    environment.emplace_back(name, value);
  }
}

void unset_variable(std::vector<NameValue>& environment, std::string_view name) {
  std::erase_if(environment, [&](const NameValue& pair) { return pair.first == name; });
}

bool autoload_is_off(const std::vector<NameValue>& environment) {
  return std::any_of(environment.begin(), environment.end(), [](const NameValue& pair) {
    return pair.first == "TORCH_DEVICE_BACKEND_AUTOLOAD" && pair.second == "0";
  });
}

// Shares are measured by the program itself, once it runs; plain bytes can be refused right away.
// A graphics card and an emulated device are not limited by the machine's memory. A budget that
// names no device may be the card's, if there is one: that is asked only before it is refused.
void check_against_machine(const runtime::Settings& settings) {
  if (!settings.budget || settings.budget->kind != runtime::BudgetSpec::Kind::kBytes) return;
  if (settings.emulate_device || settings.budget_of == runtime::BudgetDevice::kCuda) return;
  runtime::MachineMemory memory;
  memory.total = usable_memory();
  if (memory.total == Bytes{0}) return;
  if (settings.leaves_device_open() && settings.budget->bytes > memory.total &&
      runtime::a_card_is_seen()) {
    return;
  }
  static_cast<void>(runtime::resolve_budget(*settings.budget, memory, "SPILLWAY_BUDGET"));
}

// The live processes only: one that has ended holds nothing any more.
StatusTotals live_totals(const runtime::StatusPage& page) {
  std::vector<ProcessStatus> processes = read_processes(page);
  std::erase_if(processes, [](const ProcessStatus& status) {
    return status.budget == Bytes{0} ||
           (kill(static_cast<pid_t>(status.pid), 0) != 0 && errno == ESRCH);
  });
  return total_of(processes);
}

class LiveStatus {
 public:
  LiveStatus(Show show, const runtime::StatusPage* page) : page_(page) {
    if (page == nullptr || show == Show::kOff) return;
    if (show == Show::kAuto && isatty(STDERR_FILENO) == 0) return;
    shown_ = row_.open();
    if (!shown_ && show == Show::kOn) {
      say("spillway: --status on: there is no terminal to show a status on.\n");
    }
  }

  void refresh() {
    if (!shown_) return;
    const StatusTotals totals = live_totals(*page_);
    const std::size_t columns = totals.processes == 0 ? 0 : row_.columns();
    if (columns == 0) return;
    row_.show(format_status_line(totals, columns));
  }

  void hide() { row_.hide(); }

 private:
  const runtime::StatusPage* page_;
  TerminalRow row_;
  bool shown_ = false;
};

std::string start_failure(const std::string& program, int error) {
  if (error == ENOENT) {
    if (program.find('/') != std::string::npos && access(program.c_str(), F_OK) == 0) {
      return fmt::format(
          "Cannot run \"{}\": the interpreter named in its first line does not exist.", program);
    }
    if (program.find('/') != std::string::npos) {
      return fmt::format("Cannot run \"{}\": there is no such file.", program);
    }
    return fmt::format("Cannot run \"{}\": no such program on PATH.", program);
  }
  if (error == EACCES) {
    struct stat status {};
    if (stat(program.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      return fmt::format("Cannot run \"{}\": it is a directory.", program);
    }
    return fmt::format(
        "Cannot run \"{0}\": it is not executable. chmod +x it, or name its "
        "interpreter, for instance: python {0}",
        program);
  }
  return fmt::format("Cannot run \"{}\": {}.", program, std::strerror(error));
}

void report_trace(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return;
  const Bytes size{static_cast<std::uint64_t>(status.st_size)};
  say(fmt::format("spillway: trace written to {} ({})\n", path, short_bytes(size)));
}

bool went_well(const ProgramEnd& end) { return end.code == 0 && end.signal == 0; }

void report_end(const RunRequest& request, const runtime::Settings& settings,
                const std::vector<NameValue>& environment, const runtime::StatusPage* page,
                const ProgramEnd& end, const RunOutputs& outputs) {
  const std::vector<ProcessStatus> processes =
      page == nullptr ? std::vector<ProcessStatus>{} : read_processes(*page);
  const StatusTotals totals = total_of(processes);
  const bool asked = settings.effective_mode() != runtime::Mode::kOff;
  if (processes.empty() && page != nullptr) {
    if (!asked || (request.summary == Show::kOff && outputs.all_written())) return;
    if (end.signal == 0 && end.code == kMistakeExplained) return;
    say(anyone_waits_for_a_card(*page) ? format_card_unused()
                                       : format_never_loaded(autoload_is_off(environment)));
    return;
  }
  const bool limited = totals.sum.budget > Bytes{0};
  if (request.summary == Show::kOn || (request.summary == Show::kAuto && limited)) {
    say(format_summary(totals, !went_well(end)));
  }
  say(outputs.complaint(end, totals));
  if (request.trace_path && outputs.trace_can_be_read()) report_trace(*request.trace_path);
}

// The table speaks of variables; who gave a flag is answered with that flag.
std::string in_flags(std::string text, const RunRequest& request) {
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    const bool given =
        std::any_of(request.variables.begin(), request.variables.end(),
                    [&](const NameValue& pair) { return pair.first == row.variable; });
    if (given && text.compare(0, row.variable.size() + 1, std::string(row.variable) + ":") == 0) {
      text.replace(0, row.variable.size(), row.flag);
    }
  }
  return text;
}

runtime::Settings checked_settings(const RunRequest& request,
                                   const std::vector<NameValue>& environment) {
  try {
    runtime::Settings settings = runtime::settings_from_environment(environment);
    check_against_machine(settings);
    return settings;
  } catch (const UserError& error) {
    throw UserError(in_flags(error.what(), request));
  }
}

std::vector<NameValue> environment_for(const RunRequest& request) {
  std::vector<NameValue> environment = runtime::current_environment();
  for (const auto& [name, value] : request.variables) set_variable(environment, name, value);
  if (request.trace_path) {
    set_variable(environment, "SPILLWAY_MODE", "record");
    set_variable(environment, "SPILLWAY_TRACE", *request.trace_path);
  }
  return environment;
}

// Settings are the engine's, which is not there: a budget would silently mean nothing.
void refuse_settings(const RunRequest& request) {
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    for (const auto& [name, value] : request.variables) {
      if (name != row.variable) continue;
      throw UserError(
          fmt::format("{} does not go with --without-memory, which manages no memory.", row.flag));
    }
  }
}

/// That a program is recorded without memory, and since when, on the bottom row of a terminal.
class RecordingRow {
 public:
  explicit RecordingRow(Show show)
      : shown_(show != Show::kOff && isatty(STDERR_FILENO) == 1 && row_.open()) {}

  void refresh() {
    const auto passed = std::chrono::steady_clock::now() - begin_;
    constexpr std::chrono::milliseconds kPatience{500};
    if (!shown_ || passed < kPatience || row_.columns() == 0) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(passed).count();
    row_.show(fmt::format("spillway: recording without memory, {} s", seconds));
  }

  void hide() { row_.hide(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  TerminalRow row_;
  bool shown_;
};

/// The Python package records by itself: the engine, its status and its summary are not there.
ProgramEnd record_without_memory(const RunRequest& request) {
  refuse_settings(request);
  if (!request.machine.empty()) static_cast<void>(find_machine(request.machine));
  const std::vector<NameValue> environment =
      recording_environment(*request.trace_path, request.machine, request.assume);
  const RunOutputs outputs(*request.trace_path, "");
  RecordingRow row(request.status);
  ChildProcess program(request.command, environment);
  if (program.start_error() != 0) {
    say(fmt::format("spillway: {}\n",
                    start_failure(request.command.front(), program.start_error())));
    return {program.start_error() == ENOENT ? 127 : 126, 0};
  }
  const ProgramEnd end =
      program.wait({.on_tick = [&] { row.refresh(); }, .on_suspend = [&] { row.hide(); }});
  row.hide();
  const bool written = outputs.trace_written();
  if (request.json) {
    print_line(record_json(end, *request.trace_path, outputs.trace_can_be_read()));
  }
  if (!went_well(end) || written) return end;
  say("spillway: no trace was written. If nothing above says why, the program never\n"
      "  loaded PyTorch with Spillway installed beside it.\n");
  return {kNotWritten, 0};
}

// The counters are a courtesy: without them the program still runs.
runtime::StatusMapping create_status() {
  try {
    return runtime::StatusMapping::create();
  } catch (const std::exception& error) {
    say(fmt::format("spillway: no status and no summary: {}\n", error.what()));
    return {};
  }
}

}  // namespace

ProgramEnd run_program(const RunRequest& request) {
  if (request.without_memory) return record_without_memory(request);
  std::vector<NameValue> environment = environment_for(request);
  const runtime::Settings settings = checked_settings(request, environment);
  RunRequest shown = request;
  if (settings.summary && shown.summary == Show::kAuto) shown.summary = Show::kOn;
  // The summary is ours to print, once, after the program's last line.
  unset_variable(environment, "SPILLWAY_SUMMARY");
  if (settings.effective_mode() == runtime::Mode::kOff && !settings.mode) {
    say("spillway: no budget is set, so the program runs unmanaged; give --budget.\n");
  }
  const runtime::StatusMapping status = create_status();
  unset_variable(environment, "SPILLWAY_STATUS_PAGE");
  if (status.page() != nullptr) set_variable(environment, "SPILLWAY_STATUS_PAGE", status.path());

  const bool by_flag = std::any_of(request.variables.begin(), request.variables.end(),
                                   [](const NameValue& v) { return v.first == "SPILLWAY_STATS"; });
  const RunOutputs outputs(request.trace_path.value_or(""), settings.stats_path, by_flag);
  LiveStatus live(request.status, status.page());
  ChildProcess program(request.command, environment);
  if (program.start_error() != 0) {
    say(fmt::format("spillway: {}\n",
                    start_failure(request.command.front(), program.start_error())));
    return {program.start_error() == ENOENT ? 127 : 126, 0};
  }
  const auto on_tick = [&] {
    if (status.page() != nullptr) note_ends(*status.page());
    live.refresh();
  };
  const ProgramEnd end = program.wait({.on_tick = on_tick, .on_suspend = [&] { live.hide(); }});
  live.hide();
  if (status.page() != nullptr) note_ends(*status.page());
  report_end(shown, settings, environment, status.page(), end, outputs);
  if (request.json && request.trace_path) {
    print_line(record_json(end, *request.trace_path, outputs.trace_can_be_read()));
  } else if (request.json) {
    print_line(run_json(end, status.page() == nullptr ? std::vector<ProcessStatus>{}
                                                      : read_processes(*status.page())));
  }
  return went_well(end) && !outputs.all_written() ? ProgramEnd{kNotWritten, 0} : end;
}

}  // namespace spillway::tools
