// SPDX-License-Identifier: Apache-2.0
#include "text/terminal_row.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace spillway::tools {
namespace {

// Below this the program needs the row more than we do.
constexpr int kLeastRows = 4;
constexpr int kLeastColumns = 12;
constexpr int kRefreshPatienceMs = 0;
constexpr int kReleasePatienceMs = 1000;

// DECSC and DECRC keep column, attributes and a pending wrap; DECSTBM moves the cursor home, so
// every sequence that touches the region stands between the two.
constexpr std::string_view kSaveCursor = "\0337";
constexpr std::string_view kRestoreCursor = "\0338";
constexpr std::string_view kWholeRegion = "\033[r";
// Index (down one line in the same column, scrolling at the bottom), then up again: afterwards
// there is at least one row below the cursor.
constexpr std::string_view kMakeRowBelow = "\033D\033[A";

}  // namespace

std::string take_row_sequence(TerminalSize size) {
  return fmt::format("{}{}{}{}{}\033[1;{}r{}", kSaveCursor, kWholeRegion, kRestoreCursor,
                     kMakeRowBelow, kSaveCursor, size.rows - 1, kRestoreCursor);
}

std::string draw_row_sequence(TerminalSize size, std::string_view text) {
  return fmt::format("{}\033[{};1H\033[0;7m{}\033[0m\033[K{}", kSaveCursor, size.rows, text,
                     kRestoreCursor);
}

std::string release_row_sequence(TerminalSize size) {
  return fmt::format("{}{}\033[{};1H\033[0m\033[2K{}", kSaveCursor, kWholeRegion, size.rows,
                     kRestoreCursor);
}

TerminalRow::~TerminalRow() {
  hide();
  if (descriptor_ >= 0) close(descriptor_);
}

bool terminal_obeys_sequences() {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb";
}

bool TerminalRow::open() {
  if (!terminal_obeys_sequences()) return false;
  // Non-blocking, so that a stopped terminal cannot keep us from noticing the program's end.
  descriptor_ = ::open("/dev/tty", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  return descriptor_ >= 0;
}

std::size_t TerminalRow::columns() const {
  const TerminalSize now = size();
  if (now.rows < kLeastRows || now.columns < kLeastColumns || !in_foreground()) return 0;
  // The last column stays empty: writing it leaves some terminals in a pending wrap.
  return static_cast<std::size_t>(now.columns) - 1;
}

void TerminalRow::show(std::string_view text) {
  const std::size_t width = columns();
  if (width == 0) return;
  const TerminalSize now = size();
  std::string sequence;
  if (now != taken_) sequence = take_row_sequence(now);
  sequence += draw_row_sequence(now, text.substr(0, width));
  pollfd ready{descriptor_, POLLOUT, 0};
  if (poll(&ready, 1, 0) <= 0 || (ready.revents & POLLOUT) == 0) return;
  taken_ = now;
  write_within(sequence, kRefreshPatienceMs);
}

void TerminalRow::hide() {
  if (taken_.rows == 0) return;
  // The row lies where the bottom is now, whatever the size was when it was taken.
  TerminalSize now = size();
  if (now.rows == 0) now = taken_;
  write_within(release_row_sequence(now), kReleasePatienceMs);
  taken_ = {};
}

TerminalSize TerminalRow::size() const {
  winsize window{};
  if (descriptor_ < 0 || ioctl(descriptor_, TIOCGWINSZ, &window) != 0) return {};
  return {window.ws_row, window.ws_col};
}

bool TerminalRow::in_foreground() const { return tcgetpgrp(descriptor_) == getpgrp(); }

void TerminalRow::write_within(std::string_view sequence, int milliseconds) {
  while (!sequence.empty()) {
    const ssize_t written = write(descriptor_, sequence.data(), sequence.size());
    if (written > 0) {
      sequence.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno != EAGAIN) return;
    pollfd ready{descriptor_, POLLOUT, 0};
    if (poll(&ready, 1, milliseconds) <= 0) return;
  }
}

}  // namespace spillway::tools
