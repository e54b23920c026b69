// SPDX-License-Identifier: Apache-2.0
#include "run/run_outputs.hpp"

#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>

#include <utility>

#include "spillway/base/output_path.hpp"

namespace spillway::tools {
namespace {

std::string why_not_written(const ProgramEnd& end) {
  if (end.signal == 0) return "the program ended without its handlers of exit (os._exit)";
  const char* name = ::sigabbrev_np(end.signal);
  return fmt::format("the program was ended by SIG{}", name == nullptr ? "?" : name);
}

}  // namespace

RunOutputs::RunOutputs(std::string trace, std::string statistics, bool by_flag)
    : trace_(looked_at(std::move(trace), "-o")),
      statistics_(looked_at(std::move(statistics), by_flag ? "--stats" : "SPILLWAY_STATS")) {}

RunOutputs::Output RunOutputs::looked_at(std::string path, const char* flag) {
  if (path.empty()) return {};
  require_writable(path, flag);
  const State before = state_of(path);
  return {.path = std::move(path), .before = before};
}

RunOutputs::State RunOutputs::state_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return {true, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

// Takes a pipe or a device as written, since nothing shows whether it was.
bool RunOutputs::written(const Output& output) {
  if (output.path.empty()) return true;
  struct stat status {};
  if (::stat(output.path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) return true;
  return state_of(output.path) != output.before;
}

bool RunOutputs::trace_can_be_read() const {
  struct stat status {};
  return trace_written() && ::stat(trace_.path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

std::string RunOutputs::complaint(const ProgramEnd& end, const StatusTotals& totals) const {
  if (totals.sum.unwritten) return "";
  std::string text;
  if (!written(trace_)) {
    text += fmt::format(
        "spillway: no trace was written:\n  {}.\n",
        totals.sum.said_end ? "the program ran no op of PyTorch" : why_not_written(end));
  }
  if (!written(statistics_)) {
    text += fmt::format("spillway: no statistics were written:\n  {}.\n", why_not_written(end));
  }
  return text;
}

}  // namespace spillway::tools
