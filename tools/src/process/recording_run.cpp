// SPDX-License-Identifier: Apache-2.0
#include "process/recording_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <thread>

#include "process/exec_vector.hpp"
#include "spillway/base/error.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {
namespace {

using runtime::NameValue;

/// While the program runs, Ctrl-C and Ctrl-\\ are its own to obey, as in system(3).
class IgnoredSignals {
 public:
  IgnoredSignals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
      ::sigaction(kNumbers[i], &ignore, &before_[i]);
    }
  }
  IgnoredSignals(const IgnoredSignals&) = delete;
  IgnoredSignals& operator=(const IgnoredSignals&) = delete;
  ~IgnoredSignals() {
    for (std::size_t i = 0; i < kNumbers.size(); ++i) {
      ::sigaction(kNumbers[i], &before_[i], nullptr);
    }
  }

 private:
  static constexpr std::array kNumbers{SIGINT, SIGQUIT};
  std::array<struct sigaction, kNumbers.size()> before_{};
};

struct Spawned {
  pid_t pid = -1;
  int error = 0;
};

Spawned spawn(const std::vector<std::string>& command, const std::vector<NameValue>& environment,
              const std::string& log) {
  const ExecVector arguments(command);
  const ExecVector variables(environment);

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  constexpr mode_t kOwnerOnly = 0600;
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, kOwnerOnly);
  ::posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  // The program must not inherit the signals that we ignore.
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  sigaddset(&usual, SIGQUIT);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  Spawned spawned;
  spawned.error = ::posix_spawnp(&spawned.pid, arguments.front(), &files, &attributes,
                                 arguments.data(), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  return spawned;
}

int wait_for(pid_t pid, const std::function<void()>& on_tick) {
  constexpr std::chrono::milliseconds kTick{50};
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) return -1;
    on_tick();
    std::this_thread::sleep_for(kTick);
  }
}

std::string last_lines(const std::string& log) {
  constexpr std::size_t kLines = 12;
  constexpr std::size_t kWidth = 200;
  std::ifstream file(log);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back("  " + printable(line, kWidth));
    if (lines.size() > kLines) lines.pop_front();
  }
  if (lines.empty()) return " It printed nothing.";
  return fmt::format(" Its last lines:\n{}", fmt::join(lines, "\n"));
}

}  // namespace

std::vector<NameValue> recording_environment(const std::string& trace, const std::string& machine,
                                             const std::string& assume) {
  std::vector<NameValue> environment = runtime::current_environment();
  const auto unset = [&](std::string_view name) {
    std::erase_if(environment, [&](const NameValue& pair) { return pair.first == name; });
  };
  for (const runtime::SettingDescription& row : runtime::setting_descriptions()) {
    unset(row.variable);
  }
  const auto set = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    unset(name);
    environment.emplace_back(name, value);
  };
  set("SPILLWAY_WITHOUT_MEMORY", trace);
  set("SPILLWAY_MACHINE", machine);
  set("SPILLWAY_ASSUME", assume);
  return environment;
}

void record_quietly(const std::vector<std::string>& command, const std::string& trace,
                    const std::string& assume, const std::string& log,
                    const std::function<void()>& on_tick) {
  const std::string line = printable(fmt::format("{}", fmt::join(command, " ")), 120);
  int status = 0;
  {
    const IgnoredSignals ignored;
    const Spawned spawned = spawn(command, recording_environment(trace, "", assume), log);
    if (spawned.error != 0) {
      throw UserError(
          fmt::format("Cannot run \"{}\": {}.", command.front(), std::strerror(spawned.error)));
    }
    status = wait_for(spawned.pid, on_tick);
  }
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGQUIT)) {
    throw Interrupted{WTERMSIG(status)};
  }
  if (WIFSIGNALED(status)) {
    throw UserError(
        fmt::format("{} was ended by signal {}.{}", line, WTERMSIG(status), last_lines(log)));
  }
  if (WEXITSTATUS(status) != 0) {
    throw UserError(
        fmt::format("{} ended with status {}.{}", line, WEXITSTATUS(status), last_lines(log)));
  }
  struct stat found {};
  if (::stat(trace.c_str(), &found) != 0 || found.st_size == 0) {
    throw UserError(fmt::format(
        "{} recorded nothing: it must load PyTorch with Spillway installed beside it, and take\n"
        "two steps of its optimizer.{}",
        line, last_lines(log)));
  }
}

}  // namespace spillway::tools
