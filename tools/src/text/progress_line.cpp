// SPDX-License-Identifier: Apache-2.0
#include "text/progress_line.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "text/quantity_text.hpp"
#include "text/terminal_row.hpp"

namespace spillway::tools {
namespace {

constexpr TimeNs kPatience = 500'000'000;
constexpr TimeNs kInterval = 100'000'000;

TimeNs now() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// In the background a terminal may stop who writes to it.
bool may_draw() {
  return ::isatty(STDERR_FILENO) == 1 && terminal_obeys_sequences() &&
         ::tcgetpgrp(STDERR_FILENO) == ::getpgrp();
}

std::size_t columns() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  // The last column stays empty: writing it leaves some terminals in a pending wrap.
  return (known ? size.ws_col : kUsual) - 1;
}

constexpr std::string_view kErase = "\r\033[K";

// Ctrl-C and its like end the command as ever, with the line erased first.
constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// Nothing but what POSIX allows in a handler. Its action is reset on entry, so raising ends.
void erase_and_end(int number) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kErase.data(), kErase.size());
  ::raise(number);
}

void change_action(sighandler_t from, sighandler_t to) {
  for (const int number : kEnding) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler != from) continue;
    action.sa_handler = to;
    action.sa_flags = to == SIG_DFL ? 0 : static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigaction(number, &action, nullptr);
  }
}

}  // namespace

ProgressLine::ProgressLine(std::size_t runs, std::string_view work)
    : work_(work), runs_(runs), on_terminal_(may_draw()), next_(now() + kPatience) {}

ProgressLine::~ProgressLine() {
  if (!drawn_) return;
  fmt::print(stderr, kErase);
  change_action(erase_and_end, SIG_DFL);
}

void ProgressLine::begin(std::string_view planner) {
  planner_ = planner;
  ++run_;
  draw(planner_);
}

void ProgressLine::again() { draw(planner_); }

void ProgressLine::show(double share, std::string_view doing) {
  draw(fmt::format("{}, {}, {}", planner_, doing, short_percent(std::clamp(share, 0.0, 1.0))));
}

void ProgressLine::during(std::string_view doing, const std::function<void()>& work) {
  if (!on_terminal_) return work();
  // Joined behind the work, however it ends.
  const std::jthread drawing([&](const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    while (!stop.stop_requested()) {
      never.wait_for(lock, stop, std::chrono::nanoseconds(kInterval), [] { return false; });
      if (!stop.stop_requested()) draw(std::string(doing));
    }
  });
  work();
}

void ProgressLine::draw(const std::string& text) {
  if (!on_terminal_) return;
  const TimeNs time = now();
  if (time < next_ || !may_draw()) return;
  next_ = time + kInterval;
  if (!std::exchange(drawn_, true)) change_action(SIG_DFL, erase_and_end);
  const std::string count =
      runs_ > 1 && run_ > 0 ? fmt::format(" {} of {}", run_, runs_) : std::string();
  const std::string line = fmt::format("{}{}: {}", work_, count, text);
  fmt::print(stderr, "{}{}", kErase, line.substr(0, columns()));
}

}  // namespace spillway::tools
