// SPDX-License-Identifier: Apache-2.0
// Runs one program as if the shell had started it: same standard streams, terminal and process
// group. The caller waits in `wait`, which passes signals on and calls back a few times a second.
//
// Signals. From the terminal (Ctrl-C, Ctrl-\) the kernel signals the whole process group, so the
// program has them already and they are not sent twice; what another process sent to us alone, and
// a hang-up that only the session's leader is told of, is passed on. Ours stay blocked and are read
// with sigtimedwait: no handler runs, and no exit path is left without its clean-up.
//
// Single-threaded, one program at a time. Throws UserError where the system refuses a process.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "process/exec_vector.hpp"

namespace spillway::tools {

/// How a program ended: with `code`, or by `signal` where that is not 0.
struct ProgramEnd {
  int code = 0;
  int signal = 0;
};

/// Callbacks around the program, all on the calling thread.
struct ProgramWatcher {
  std::function<void()> on_tick;     ///< every 200 ms, and when the terminal changes its size
  std::function<void()> on_suspend;  ///< before we stop with the program (Ctrl-Z)
};

class ChildProcess {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  /// Starts `command` (found on PATH as a shell would). From here on this process ignores SIGPIPE
  /// and, until destruction, blocks the signals above; the program has both as they were before.
  ChildProcess(const std::vector<std::string>& command, const Environment& environment);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// errno of the attempt to start, 0 if the program runs.
  [[nodiscard]] int start_error() const { return start_error_; }

  /// Until the program ends. Only after a start without error.
  ProgramEnd wait(const ProgramWatcher& watcher);

 private:
  void start(const ExecVector& arguments, const ExecVector& variables);
  void handle(const siginfo_t& info, const ProgramWatcher& watcher);
  bool ended(ProgramEnd& end);
  void pass_on(const siginfo_t& info) const;

  pid_t pid_ = -1;
  int start_error_ = 0;
  sigset_t blocked_{};
  sigset_t mask_before_{};
};

/// Ends this process the way the program ended: the same exit status, or the same signal, so that
/// a shell or a scheduler above cannot tell the difference.
[[noreturn]] void end_like(const ProgramEnd& end);

}  // namespace spillway::tools
