// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <filesystem>
#include <utility>

#include "cli/help_text.hpp"
#include "cli/planning_flags.hpp"
#include "machine/machine_lookup.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"

namespace spillway::tools {
namespace {

struct FlagValue {
  std::string variable;
  CLI::Option* option = nullptr;
  std::string text;
};

// Everything CLI11 writes into. Addresses are handed to CLI11, hence the deque.
struct Parsed {
  std::deque<FlagValue> flags;
  std::string status = "auto";
  std::string summary = "auto";
  std::string output;
  bool without_memory = false;
  std::string machine;
  std::string assume;
  bool json = false;
  DoctorRequest doctor;
  std::string doctor_dir;
  std::string doctor_file;
  std::string trace_path;
  std::string other_trace_path;
  std::string trace_machine;
  std::string trace_output;
  bool trace_json = false;
  bool trace_depth_first = false;
  PlanningFlags planning;
};

[[noreturn]] void throw_unknown_command(const std::string& word, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const std::vector<std::string_view> words(names.begin(), names.end());
  throw UserError(fmt::format("Unknown command \"{}\".{} Commands: {}.", word,
                              suggestion(word, words), fmt::join(names, ", ")));
}

[[noreturn]] void throw_unknown_flag(const std::string& word, const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  const std::vector<std::string_view> words(names.begin(), names.end());
  const std::string flag = word.substr(0, word.find('='));
  const std::string path = command_path(command);
  throw UserError(fmt::format("Unknown flag \"{}\" of {}.{} See {} --help.", flag, path,
                              suggestion(flag, words), path));
}

Show parse_show(const std::string& text, std::string_view flag, bool has_auto) {
  if (text == "on") return Show::kOn;
  if (text == "off") return Show::kOff;
  if (text == "auto") return Show::kAuto;
  static constexpr std::array<std::string_view, 3> kWords{"on", "off", "auto"};
  const std::span<const std::string_view> words = std::span(kWords).first(has_auto ? 3 : 2);
  throw UserError(fmt::format("{} \"{}\" is not one of {}.{}", flag, text, fmt::join(words, ", "),
                              suggestion(text, words)));
}

std::string flag_name(std::string_view flag) {
  return flag.substr(0, 2) == "--" ? std::string(flag) : "--" + std::string(flag);
}

void add_run_flags(CLI::App& command, Parsed& parsed, bool records) {
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    if (row.flag.empty() || row.variable == "SPILLWAY_SUMMARY") continue;
    // `record` is a mode, and names its own output.
    if (records && (row.variable == "SPILLWAY_MODE" || row.variable == "SPILLWAY_TRACE")) continue;
    FlagValue& flag = parsed.flags.emplace_back();
    flag.variable = row.variable;
    flag.option = command.add_option(flag_name(row.flag), flag.text, std::string(row.meaning));
    flag.option->type_name(std::string(row.value));
  }
  command.add_option("--status", parsed.status, "Live status on the bottom row of the terminal.")
      ->type_name("auto|on|off");
  command.add_option("--summary", parsed.summary, "Summary on standard error at the end.")
      ->type_name("on|off");
  command.add_flag("--json", parsed.json, "Print the outcome as the last line of standard output.");
  command.prefix_command();
}

void add_commands(CLI::App& app, Parsed& run, Parsed& record) {
  app.require_subcommand(0, 1);
  app.allow_extras();
  add_run_flags(*app.add_subcommand("run", "Run a program under a memory budget."), run, false);
  CLI::App* recorder = app.add_subcommand("record", "Run a program and record one training step.");
  recorder->add_option("-o,--output", record.output, "Where the trace goes; .zst compresses it.")
      ->type_name("FILE");
  recorder->add_flag("--without-memory", record.without_memory,
                     "Run one step on storages without bytes: any size, on any machine.");
  recorder
      ->add_option("--machine", record.machine,
                   "With --without-memory: whose durations to estimate.")
      ->type_name("NAME");
  recorder
      ->add_option("--assume", record.assume,
                   "With --without-memory: the value that the program reads from a tensor.")
      ->type_name("N");
  add_run_flags(*recorder, record, true);
  CLI::App* doctor = app.add_subcommand("doctor", "Check what this machine offers to training.");
  doctor->add_option("--spool-dir", run.doctor_dir, "The directory to measure.")->type_name("DIR");
  doctor->add_option("--save", run.doctor_file, "Measure this machine too, and write its file.")
      ->type_name("FILE");
  doctor->add_flag("--json", run.doctor.json, "Print JSON.");
  CLI::App* trace = app.add_subcommand("trace", "Look into a recorded trace.");
  trace->require_subcommand(0, 1);
  trace->add_subcommand("show", "List the ops and what each reads and writes.")
      ->add_option("FILE", run.trace_path, "A trace written by spillway record.");
  trace->add_subcommand("stats", "Sum up ops, storages and bytes.")
      ->add_option("FILE", run.trace_path, "A trace written by spillway record.");
  CLI::App* diff = trace->add_subcommand("diff", "Say where two steps differ.");
  diff->add_option("FILE", run.trace_path, "A trace written by spillway record.");
  diff->add_option("OTHER", run.other_trace_path, "Another.");
  CLI::App* workspace = trace->add_subcommand(
      "workspace", "Add what its kernels allocated for themselves to a machine's file.");
  workspace->add_option("FILE", run.trace_path, "A trace written by spillway record, of a run.");
  workspace->add_option("--machine", run.trace_machine, "Where it ran.")->type_name("NAME");
  workspace->add_option("-o,--output", run.trace_output, "The machine's file.")->type_name("FILE");
  CLI::App* reorder =
      trace->add_subcommand("reorder", "Write the step with its ops in another order.");
  reorder->add_option("FILE", run.trace_path, "A trace written by spillway record.");
  reorder->add_flag("--depth-first", run.trace_depth_first,
                    "What became ready last runs next (TensorFlowMem).");
  reorder->add_option("-o,--output", run.trace_output, "The other step; .zst compresses it.")
      ->type_name("FILE");
  for (CLI::App* view : trace->get_subcommands({})) {
    view->add_flag("--json", run.trace_json, "Print JSON.");
  }
  run.planning.add_commands(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->allow_extras();
    for (CLI::App* view : command->get_subcommands({})) view->allow_extras();
  }
}

// A program that changes its directory must not move where the files go.
std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

bool is_path(std::string_view variable) {
  return variable == "SPILLWAY_SPOOL_DIR" || variable == "SPILLWAY_STATS" ||
         variable == "SPILLWAY_TRACE";
}

RunRequest run_request(const CLI::App& command, const Parsed& parsed,
                       std::vector<std::string> program) {
  std::vector<std::string> extras = command.remaining();
  if (!extras.empty() && extras.front().substr(0, 1) == "-") {
    throw_unknown_flag(extras.front(), command);
  }
  extras.insert(extras.end(), std::make_move_iterator(program.begin()),
                std::make_move_iterator(program.end()));
  RunRequest request;
  request.command = std::move(extras);
  for (const FlagValue& flag : parsed.flags) {
    if (flag.option->count() == 0) continue;
    request.variables.emplace_back(flag.variable,
                                   is_path(flag.variable) ? absolute_path(flag.text) : flag.text);
  }
  request.status = parse_show(parsed.status, "--status", true);
  if (parsed.summary != "auto") request.summary = parse_show(parsed.summary, "--summary", false);
  request.json = parsed.json;
  if (command.get_name() == "record") {
    if (parsed.output.empty()) {
      throw UserError("No trace to write: give -o FILE.");
    }
    request.trace_path = absolute_path(parsed.output);
    request.without_memory = parsed.without_memory;
    request.machine =
        is_machine_file(parsed.machine) ? absolute_path(parsed.machine) : parsed.machine;
    request.assume = parsed.assume;
    if (!request.without_memory && !(request.machine.empty() && request.assume.empty())) {
      throw UserError("--machine and --assume go with --without-memory.");
    }
  }
  if (request.command.empty()) {
    throw UserError(fmt::format(
        "No program to run. For instance: {} {}-- python train.py", command_path(command),
        command.get_name() == "record" ? "-o step.json " : "--budget 12GiB "));
  }
  return request;
}

void refuse_extras(const CLI::App& command) {
  const std::vector<std::string> extras = command.remaining();
  if (extras.empty()) return;
  if (extras.front().substr(0, 1) == "-") throw_unknown_flag(extras.front(), command);
  throw UserError(fmt::format("{} does not take \"{}\".", command_path(command), extras.front()));
}

TraceRequest reorder_request(const CLI::App& view, const Parsed& parsed) {
  if (!parsed.trace_depth_first) {
    throw UserError(
        fmt::format("No order: give --depth-first. See {} --help.", command_path(view)));
  }
  if (parsed.trace_output.empty()) throw UserError("No trace to write: give -o FILE.");
  return {.view = TraceRequest::View::kReorder,
          .path = parsed.trace_path,
          .json = parsed.trace_json,
          .output_path = parsed.trace_output};
}

TraceRequest trace_request(const CLI::App& trace, const Parsed& parsed) {
  const auto views = trace.get_subcommands();
  if (views.empty()) {
    const auto extras = trace.remaining();
    if (!extras.empty()) throw_unknown_command(extras.front(), trace);
    throw UserError("No view of the trace: give show, stats, diff, workspace or reorder.");
  }
  refuse_extras(*views.front());
  if (parsed.trace_path.empty()) {
    throw UserError(fmt::format("No trace file: {} FILE", command_path(*views.front())));
  }
  const std::string view = views.front()->get_name();
  if (view == "show") return {TraceRequest::View::kShow, parsed.trace_path, "", parsed.trace_json};
  if (view == "stats")
    return {TraceRequest::View::kStats, parsed.trace_path, "", parsed.trace_json};
  if (view == "workspace") {
    if (parsed.trace_machine.empty() || parsed.trace_output.empty()) {
      throw UserError(
          fmt::format("{} needs --machine NAME and -o FILE.", command_path(*views.front())));
    }
    return {TraceRequest::View::kWorkspace, parsed.trace_path,  "", parsed.trace_json,
            parsed.trace_machine,           parsed.trace_output};
  }
  if (view == "reorder") return reorder_request(*views.front(), parsed);
  if (parsed.other_trace_path.empty()) {
    throw UserError(fmt::format("No second trace: {} FILE OTHER", command_path(*views.front())));
  }
  return {TraceRequest::View::kDiff, parsed.trace_path, parsed.other_trace_path, parsed.trace_json};
}

// The words behind `report`, which Python reads.
std::vector<std::string> words_of_report(std::span<const std::string> arguments) {
  const auto report = std::find(arguments.begin(), arguments.end(), "report");
  if (report == arguments.end()) return {};
  return {report + 1, arguments.end()};
}

Request request_of(const CLI::App& app, const Parsed& run, const Parsed& record,
                   std::vector<std::string> program, std::vector<std::string> report_words) {
  const auto chosen = app.get_subcommands();
  if (chosen.empty()) {
    const auto extras = app.remaining();
    if (extras.empty()) return PrintRequest{help_text(app)};
    if (extras.front().substr(0, 1) == "-") throw_unknown_flag(extras.front(), app);
    throw_unknown_command(extras.front(), app);
  }
  const CLI::App& command = *chosen.front();
  if (command.get_name() == "run") return run_request(command, run, std::move(program));
  if (command.get_name() == "record") return run_request(command, record, std::move(program));
  if (command.get_name() == "trace") return trace_request(command, run);
  if (command.get_name() == "report") return ReportRequest{std::move(report_words)};
  refuse_extras(command);
  if (PlanningFlags::is_planning(command)) {
    return run.planning.request(command, std::move(program));
  }
  DoctorRequest doctor = run.doctor;
  if (!run.doctor_dir.empty()) doctor.spool_dir = absolute_path(run.doctor_dir);
  if (!run.doctor_file.empty()) doctor.save_path = run.doctor_file;
  return doctor;
}

const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.front());
}

}  // namespace

Request parse_command_line(std::span<const std::string> arguments) {
  CLI::App app("Train networks that do not fit in memory, without changing the program.",
               "spillway");
  Parsed run;
  Parsed record;
  app.set_version_flag("--version", std::string("spillway ") + SPILLWAY_VERSION,
                       "Print the version.");
  app.set_help_flag("-h,--help", "Print this text.");
  add_commands(app, run, record);

  // CLI11 looks for flags beyond `--` in some states, so the program's words never reach it.
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> program;
  if (mark != arguments.end()) program.assign(mark + 1, arguments.end());
  std::vector<std::string> reversed(arguments.begin(), mark);
  std::reverse(reversed.begin(), reversed.end());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForVersion&) {
    return PrintRequest{app.version() + "\n"};
  } catch (const CLI::CallForHelp&) {
    return PrintRequest{help_text(innermost(app))};
  } catch (const CLI::ParseError& error) {
    const std::string path = command_path(innermost(app));
    throw UserError(fmt::format("{}: {}. See {} --help.", path, error.what(), path));
  }
  return request_of(app, run, record, std::move(program), words_of_report(arguments));
}

}  // namespace spillway::tools
