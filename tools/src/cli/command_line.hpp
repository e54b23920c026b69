// SPDX-License-Identifier: Apache-2.0
// The words of the `spillway` command, parsed into values. Nothing is started or read here.
//
// Flags of `run` and `record` come from the table of settings (runtime/settings.hpp), so that help
// texts, variables and documents name the same things. Whatever follows `--`, or the first word
// that is no flag, is the program to run and is never looked at.
//
// Errors: UserError naming the nearest right word. Thread-safe; owns everything it returns.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "request/command_requests.hpp"
#include "request/planning_request.hpp"

namespace spillway::tools {

/// Text for standard output, then exit 0: help and version.
struct PrintRequest {
  std::string text;
};

using Request = std::variant<PrintRequest, RunRequest, DoctorRequest, TraceRequest, PlanningRequest,
                             ReportRequest>;

/// `arguments` without the name of the command itself.
Request parse_command_line(std::span<const std::string> arguments);

}  // namespace spillway::tools
