// SPDX-License-Identifier: Apache-2.0
// The words of the `spillway` command, parsed into values. Nothing is started or read here.
//
// Flags of `run` and `record` come from the table of settings (runtime/settings.hpp), so that help
// texts, variables and documents name the same things. Whatever follows `--`, or the first word
// that is no flag, is the program to run and is never looked at.
//
// Errors: UserError naming the nearest right word. Thread-safe; owns everything it returns.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planning_request.hpp"
#include "report_command.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::tools {

enum class Show { kAuto, kOn, kOff };

/// `run`, and `record` with `trace_path` set.
struct RunRequest {
  std::vector<runtime::NameValue> variables;  ///< SPILLWAY_* given as flags
  Show status = Show::kAuto;
  Show summary = Show::kAuto;
  std::optional<std::string> trace_path;
  /// record: run the step on storages without bytes, for a machine, under assumptions.
  bool without_memory = false;
  std::string machine;
  std::string assume;
  bool json = false;  ///< print what came of it on standard output, behind the program's last line
  std::vector<std::string> command;
};

struct DoctorRequest {
  std::optional<std::string> spool_dir;
  std::optional<std::string> save_path;  ///< measure this machine and write its file there
  bool json = false;
};

struct TraceRequest {
  enum class View { kShow, kStats, kDiff, kWorkspace, kReorder };
  View view = View::kShow;
  std::string path;
  std::string other_path{};  ///< kDiff
  bool json = false;
  std::string machine{};      ///< kWorkspace: name or file
  std::string output_path{};  ///< kWorkspace: the machine's new file; kReorder: the other step
};

/// Text for standard output, then exit 0: help and version.
struct PrintRequest {
  std::string text;
};

using Request = std::variant<PrintRequest, RunRequest, DoctorRequest, TraceRequest, PlanningRequest,
                             ReportRequest>;

/// `arguments` without the name of the command itself.
Request parse_command_line(std::span<const std::string> arguments);

}  // namespace spillway::tools
