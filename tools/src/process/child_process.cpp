// SPDX-License-Identifier: Apache-2.0
#include "process/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "spillway/base/error.hpp"

namespace spillway::tools {
namespace {

constexpr long kTickNs = 200'000'000;

// SIGTTOU is blocked only so that writing our own lines cannot stop us; it is never waited for.
constexpr std::array kWaitedFor{SIGCHLD, SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, SIGWINCH};
constexpr std::array kHeldBack{SIGTTOU};

sigset_t waited_for() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : kWaitedFor) sigaddset(&set, number);
  return set;
}

void set_disposition(int number, sighandler_t handler, struct sigaction& before) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(number, &action, &before);
}

// By SIGTSTP and not by SIGSTOP: the kernel drops it where no shell could ever let us go on.
void stop_until_continued() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTSTP);
  raise(SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  sigprocmask(SIG_BLOCK, &stop, nullptr);
}

int read_start_error(int descriptor) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = read(descriptor, &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const Environment& environment) {
  blocked_ = waited_for();
  for (const int number : kHeldBack) sigaddset(&blocked_, number);
  sigprocmask(SIG_BLOCK, &blocked_, &mask_before_);
  start(ExecVector(command), ExecVector(environment));
}

ChildProcess::~ChildProcess() { sigprocmask(SIG_SETMASK, &mask_before_, nullptr); }

// The pipe closes by itself when exec succeeds; otherwise the child writes errno into it.
void ChildProcess::start(const ExecVector& arguments, const ExecVector& variables) {
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) {
    throw UserError(
        fmt::format("Cannot start a process: {}. Raise the limit on open files (ulimit -n).",
                    std::strerror(errno)));
  }

  // Where SIGCHLD is ignored the kernel reaps children itself and their status is lost. SIGPIPE
  // would end us before we have passed on how the program ended.
  struct sigaction child_before {};
  struct sigaction pipe_before {};
  set_disposition(SIGCHLD, SIG_DFL, child_before);
  set_disposition(SIGPIPE, SIG_IGN, pipe_before);
  pid_ = fork();
  if (pid_ == 0) {
    sigaction(SIGCHLD, &child_before, nullptr);
    sigaction(SIGPIPE, &pipe_before, nullptr);

    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    execvpe(arguments.front(), arguments.data(), variables.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t ignored = write(report[1], &error, sizeof error);
    _exit(127);
  }
  const int fork_error = errno;
  close(report[1]);
  if (pid_ > 0) start_error_ = read_start_error(report[0]);
  close(report[0]);
  if (pid_ < 0) {
    throw UserError(
        fmt::format("Cannot start a process: {}. Raise the limit on processes (ulimit -u) or "
                    "the cgroup's pids.max.",
                    std::strerror(fork_error)));
  }
  if (start_error_ != 0) waitpid(pid_, nullptr, 0);
}

ProgramEnd ChildProcess::wait(const ProgramWatcher& watcher) {
  const sigset_t set = waited_for();
  ProgramEnd end;
  while (!ended(end)) {
    siginfo_t info{};
    const timespec patience{0, kTickNs};
    const int number = sigtimedwait(&set, &info, &patience);
    if (number > 0) {
      handle(info, watcher);
    } else if (errno == EAGAIN) {
      watcher.on_tick();
    }
  }
  return end;
}

void ChildProcess::handle(const siginfo_t& info, const ProgramWatcher& watcher) {
  switch (info.si_signo) {
    case SIGCHLD:
      return;
    case SIGWINCH:
      watcher.on_tick();
      return;
    case SIGTSTP:
      pass_on(info);
      watcher.on_suspend();
      stop_until_continued();
      // Whoever let us go on may have let only us go on.
      kill(pid_, SIGCONT);
      return;
    default:
      pass_on(info);
  }
}

//   Ctrl-C     kernel --> process group { spillway, program }      SI_KERNEL: nothing to do
//   hang-up    kernel --> leader of the session, if that is us     SI_KERNEL: pass it on
//   kill PID   someone --> spillway                                SI_USER:   pass it on
//   program --> its own group, as torchrun does to end its workers            nothing to do
void ChildProcess::pass_on(const siginfo_t& info) const {
  const bool to_leader_only = info.si_signo == SIGHUP && getsid(0) == getpid();
  if (info.si_code == SI_KERNEL && !to_leader_only) return;
  if (info.si_code != SI_KERNEL && info.si_pid == pid_) return;
  kill(pid_, info.si_signo);
}

bool ChildProcess::ended(ProgramEnd& end) {
  int status = 0;
  const pid_t result = waitpid(pid_, &status, WNOHANG);
  if (result == 0 || (result < 0 && errno == EINTR)) return false;
  if (result < 0) throw InternalError(fmt::format("waitpid({}): {}", pid_, std::strerror(errno)));
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.code = WEXITSTATUS(status);
  }
  return true;
}

void end_like(const ProgramEnd& end) {
  std::fflush(nullptr);
  if (end.signal == 0) std::exit(end.code);
  // The program's core file is the one of interest, not ours.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  signal(end.signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, end.signal);
  raise(end.signal);
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
  std::_Exit(128 + end.signal);
}

}  // namespace spillway::tools
