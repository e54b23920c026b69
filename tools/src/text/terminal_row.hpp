// SPDX-License-Identifier: Apache-2.0
// The bottom row of the terminal, kept for one line of text while another program writes above it.
//
//     row 1      +--------------------------+
//                | the program's output     |   scroll region (DECSTBM): scrolls by itself, so
//     row n-1    | scrolls in here          |   progress bars, prints and prompts need not know
//     row n      | spillway 812 MiB / 1 GiB |   ours
//                +--------------------------+
//
// Works on /dev/tty through a file description of its own, so nothing done here changes how the
// program sees its standard streams. Each update is a single write() that saves and restores the
// cursor, so it never lands inside another write of the program. The row is taken by the first
// show(), given back by hide() or the destructor. While the terminal is stopped (Ctrl-S) or belongs
// to another process group, updates are left out rather than waited for.
//
// Not thread-safe. Nothing here throws: a terminal that goes away ends the display, nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace spillway::tools {

struct TerminalSize {
  int rows = 0;
  int columns = 0;

  bool operator==(const TerminalSize&) const = default;
};

/// Takes row `size.rows` out of the scroll region. Leaves cursor and text where they are; scrolls
/// the text up by one line only where the cursor stands on the row that is taken.
std::string take_row_sequence(TerminalSize size);
/// Replaces the text of the row. `text` must fit.
std::string draw_row_sequence(TerminalSize size, std::string_view text);
/// Empties the row and makes the whole screen scroll again.
std::string release_row_sequence(TerminalSize size);

/// False where TERM says that the terminal can neither erase nor place a cursor.
bool terminal_obeys_sequences();

class TerminalRow {
 public:
  TerminalRow() = default;
  TerminalRow(const TerminalRow&) = delete;
  TerminalRow& operator=(const TerminalRow&) = delete;
  ~TerminalRow();

  /// Opens the controlling terminal. False where there is none or it cannot place a cursor.
  bool open();

  /// Columns that show() can use now; 0 while nothing can be shown (too small, in background).
  [[nodiscard]] std::size_t columns() const;

  /// Shows `text`, cut to columns(); takes the row if it is not taken, and takes it anew where the
  /// terminal has changed its size.
  void show(std::string_view text);

  /// Gives the row back. Waits up to a second for a terminal that is stopped.
  void hide();

 private:
  [[nodiscard]] TerminalSize size() const;
  [[nodiscard]] bool in_foreground() const;
  void write_within(std::string_view sequence, int milliseconds);

  int descriptor_ = -1;
  TerminalSize taken_{};  ///< the size at which the row was taken; 0 rows: not taken
};

}  // namespace spillway::tools
