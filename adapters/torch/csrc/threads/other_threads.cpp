// SPDX-License-Identifier: Apache-2.0
#include "threads/other_threads.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

namespace spillway::torch {

namespace {

// A thread that waits for the interpreter's lock wakes every 5 ms to ask for it, and one of OpenMP
// goes on running for up to 200 ms after its loop (KMP_BLOCKTIME).
constexpr auto kPatience = std::chrono::milliseconds(300);
constexpr auto kBetweenTries = std::chrono::microseconds(250);

// The text behind `name` in a file of lines "name:\tvalue"; empty if there is none.
std::string_view value_of(std::string_view text, std::string_view name) {
  const std::size_t begin = text.find(name);
  if (begin == text.npos) return {};
  text.remove_prefix(begin + name.size());
  return text.substr(0, text.find('\n'));
}

// How often the thread was scheduled so far, as text, if it sleeps now. The same twice: it slept
// all the time in between.
std::optional<std::string> sleep_of(const std::string& thread) {
  const std::string path = "/proc/self/task/" + thread + "/status";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 4096> buffer{};
  const ssize_t length = ::read(file, buffer.data(), buffer.size());
  ::close(file);
  if (length <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(length));
  const std::string_view waited = value_of(text, "\nvoluntary_ctxt_switches:");
  if (!value_of(text, "\nState:").starts_with("\tS") || waited.empty()) return std::nullopt;
  return std::string(waited);
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

// By thread; nothing if one does not sleep.
std::optional<std::map<std::string, std::string>> sleeps() {
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/task"));
  if (folder == nullptr) return std::nullopt;
  const std::string self = std::to_string(::gettid());
  std::map<std::string, std::string> found;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string thread(static_cast<const char*>(entry->d_name));
    if (thread.front() == '.' || thread == self) continue;
    std::optional<std::string> sleep = sleep_of(thread);
    if (!sleep) return std::nullopt;
    found.emplace(thread, *std::move(sleep));
  }
  return found;
}

}  // namespace

//     first look   |--A--B--C--|              all sleep
//     second look               |--A--B--C--|  the same, and none was scheduled in between
//                              ^ here none ran
bool all_others_sleep() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  do {
    const auto first = sleeps();
    if (first && first == sleeps()) return true;
    std::this_thread::sleep_for(kBetweenTries);
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace spillway::torch
