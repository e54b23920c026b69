// SPDX-License-Identifier: Apache-2.0
// The files that a program under `spillway run` or `record` is to leave behind: looked at before it
// starts and after it has ended. Paths are absolute or seen from the present directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "process/child_process.hpp"
#include "run/status_totals.hpp"

namespace spillway::tools {

class RunOutputs {
 public:
  /// Empty: none is asked for. Throws UserError where a file could not be written.
  /// `by_flag`: the name of the second was given as a flag, and not as a variable.
  RunOutputs(std::string trace, std::string statistics, bool by_flag = true);

  [[nodiscard]] bool trace_written() const { return written(trace_); }
  /// A device or a pipe is no trace that could be read again.
  [[nodiscard]] bool trace_can_be_read() const;
  [[nodiscard]] bool all_written() const { return written(trace_) && written(statistics_); }
  /// A sentence for each file that is not there, with the reason; nothing where the program itself
  /// said one. Empty if all are there.
  [[nodiscard]] std::string complaint(const ProgramEnd& end, const StatusTotals& totals) const;

 private:
  // Changes when a file is written anew.
  struct State {
    bool there = false;
    ino_t number = 0;
    off_t size = 0;
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;

    bool operator==(const State&) const = default;
  };
  struct Output {
    std::string path;
    State before;
  };

  static State state_of(const std::string& path);
  static Output looked_at(std::string path, const char* flag);
  static bool written(const Output& output);

  Output trace_;
  Output statistics_;
};

}  // namespace spillway::tools
