// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "answer/planning_answer.hpp"
#include "cli/command_line.hpp"
#include "doctor/doctor.hpp"
#include "process/child_process.hpp"
#include "process/recording_run.hpp"
#include "report/report_command.hpp"
#include "run/run_command.hpp"
#include "spillway/base/error.hpp"
#include "trace/trace_command.hpp"

namespace spillway::tools {
namespace {

constexpr int kMistake = 2;
constexpr int kInternalError = 70;  // EX_SOFTWARE of sysexits.h

ProgramEnd carry_out(const PrintRequest& request) {
  fmt::print("{}", request.text);
  return {};
}
ProgramEnd carry_out(const RunRequest& request) { return run_program(request); }
ProgramEnd carry_out(const DoctorRequest& request) { return {examine_machine(request), 0}; }
ProgramEnd carry_out(const TraceRequest& request) {
  fmt::print("{}", trace_text(request));
  return {};
}

ProgramEnd carry_out(const PlanningRequest& request) {
  const PlanningAnswer answer = planning_answer(request);
  fmt::print("{}", request.json ? answer_json(answer) : answer_text(answer));
  return {status_of(answer), 0};
}
ProgramEnd carry_out(const ReportRequest& request) { draw_report(request); }

ProgramEnd run(const std::vector<std::string>& arguments) {
  try {
    return std::visit([](const auto& request) { return carry_out(request); },
                      parse_command_line(arguments));
  } catch (const UserError& error) {
    fmt::print(stderr, "spillway: {}\n", error.what());
    return {kMistake, 0};
  } catch (const Interrupted& interrupted) {
    return {0, interrupted.signal};
  } catch (const std::exception& error) {
    fmt::print(stderr, "spillway: internal error: {}\n", error.what());
    return {kInternalError, 0};
  }
}

}  // namespace
}  // namespace spillway::tools

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  spillway::tools::end_like(spillway::tools::run(arguments));
}
