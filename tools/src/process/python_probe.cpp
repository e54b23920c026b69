// SPDX-License-Identifier: Apache-2.0
#include "process/python_probe.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

namespace spillway::tools {
namespace {

constexpr std::chrono::seconds kPatience{10};

// The package's files are listed in its metadata; a library there names the framework it is for.
constexpr const char* kProbe = R"(
import importlib.metadata as m, json, platform, sys
def version(name):
    try:
        return m.version(name) or ''
    except m.PackageNotFoundError:
        return ''
torch = version('torch')
tensorflow = version('tensorflow') or version('tensorflow-cpu')
def library(name, of):
    minor = '.'.join(of.split('.')[:2])
    return any(f.endswith('libspillway_%s-%s.so' % (name, minor)) for f in files)
try:
    files = [str(f) for f in m.files('spillway') or []]
except m.PackageNotFoundError:
    files = []
print(json.dumps({
    'executable': sys.executable, 'version': platform.python_version(), 'torch': torch,
    'tensorflow': tensorflow, 'spillway': version('spillway'),
    'has_adapter': library('torch', torch), 'has_plugin': library('tensorflow', tensorflow)}))
)";

struct Answer {
  int spawn_error = 0;
  bool late = false;
  int status = 0;
  std::string text;
};

// Standard output until it ends; true if that was before the deadline.
bool read_until_end(int descriptor, std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd ready{descriptor, POLLIN, 0};
    if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) == 0) return false;
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return true;
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) return false;
  }
}

Answer ask(const std::string& program) {
  Answer answer;
  std::array<int, 2> output{};
  if (pipe2(output.data(), O_CLOEXEC) != 0) {
    answer.spawn_error = errno;
    return answer;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program;
  std::string flag = "-c";
  std::string script = kProbe;
  std::array<char*, 4> arguments{name.data(), flag.data(), script.data(), nullptr};
  pid_t pid = -1;
  answer.spawn_error =
      posix_spawnp(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(output[1]);
  if (answer.spawn_error == 0) {
    answer.late = !read_until_end(output[0], answer.text);
    if (answer.late) kill(pid, SIGKILL);
    waitpid(pid, &answer.status, 0);
  }
  close(output[0]);
  return answer;
}

}  // namespace

PythonFacts parse_python_facts(std::string_view json) {
  PythonFacts facts;
  facts.found = true;
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) {
    facts.problem = "it did not answer; is it Python 3.10 or newer?";
    return facts;
  }
  const auto text = [&](const char* key) {
    const auto found = parsed.find(key);
    return found != parsed.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  facts.executable = text("executable");
  facts.version = text("version");
  facts.torch = text("torch");
  facts.tensorflow = text("tensorflow");
  facts.spillway = text("spillway");
  const auto is_true = [&](const char* key) {
    const auto found = parsed.find(key);
    return found != parsed.end() && found->is_boolean() && found->get<bool>();
  };
  facts.has_adapter = is_true("has_adapter");
  facts.has_plugin = is_true("has_plugin");
  return facts;
}

PythonFacts probe_python(const std::string& program) {
  const Answer answer = ask(program);
  if (answer.spawn_error != 0) return {};
  if (answer.late) {
    PythonFacts facts;
    facts.found = true;
    facts.problem = "it did not answer within 10 s";
    return facts;
  }
  // A version manager's stand-in exits with 127 where it manages no such program.
  if (WIFEXITED(answer.status) && WEXITSTATUS(answer.status) == 127) return {};
  return parse_python_facts(answer.text);
}

namespace {

// Of major version 2.
bool is_minor_within(std::string_view version, int first, int last) {
  int major = 0;
  int minor = 0;
  const char* end = version.data() + version.size();
  const auto point = std::from_chars(version.data(), end, major);
  if (point.ec != std::errc() || point.ptr == end || *point.ptr != '.') return false;
  if (std::from_chars(point.ptr + 1, end, minor).ec != std::errc()) return false;
  return major == 2 && minor >= first && minor <= last;
}

}  // namespace

bool is_supported_torch(std::string_view version) { return is_minor_within(version, 11, 15); }

bool is_supported_tensorflow(std::string_view version) { return is_minor_within(version, 19, 21); }

}  // namespace spillway::tools
