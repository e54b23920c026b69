// SPDX-License-Identifier: Apache-2.0
#include "report/report_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "process/exec_vector.hpp"
#include "process/python_probe.hpp"
#include "spillway/base/error.hpp"

namespace spillway::tools {

void draw_report(const ReportRequest& request) {
  const PythonFacts python = probe_python("python3");
  if (!python.found || python.spillway.empty()) {
    throw UserError(
        "The page is drawn by the Python package of Spillway, which the python3 on PATH does not "
        "have: activate the environment it is installed in.");
  }
  std::vector<std::string> words{python.executable, "-m", "spillway.report"};
  words.insert(words.end(), request.arguments.begin(), request.arguments.end());
  const ExecVector arguments(words);
  // The page is drawn from what this very command simulates, whether it is on PATH or not.
  char self[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (length > 0) {
    self[length] = '\0';
    ::setenv("SPILLWAY_COMMAND", self, 0);
  }
  ::execv(words.front().c_str(), arguments.data());
  throw UserError(fmt::format("{} cannot be started: {}.", words.front(), std::strerror(errno)));
}

}  // namespace spillway::tools
