// SPDX-License-Identifier: Apache-2.0
// Requests to the commands that plan nothing, as plain values: the command line makes them, each
// command takes its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
  bool json = false;  ///< print the outcome on standard output, after the program's last line
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

/// Everything behind `report` goes to the Python report as it is.
struct ReportRequest {
  std::vector<std::string> arguments;
};

}  // namespace spillway::tools
