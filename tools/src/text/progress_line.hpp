// SPDX-License-Identifier: Apache-2.0
// Shows how far planning or other work is, on one line of standard error that is removed at the
// end:
//
//     planning 3 of 8: hybrid, improving, 40 %
//
// Drawn only after half a second, ten times a second at most, where standard error is a terminal
// that obeys sequences and the command is in its foreground. A signal that ends the command, as
// Ctrl-C does, erases it too. For one thread, and one line at a time; work that cannot say how far
// it is runs on that thread, in during(), while another one draws.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "spillway/base/ids.hpp"

namespace spillway::tools {

class ProgressLine {
 public:
  /// `runs`: how many planners will run, one after another. `work`: the line's first word.
  explicit ProgressLine(std::size_t runs = 1, std::string_view work = "planning");
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  /// The next run begins.
  void begin(std::string_view planner);
  /// It goes on, nobody knows how far.
  void again();
  /// `share` of it, from 0 to 1, is done.
  void show(double share, std::string_view doing);
  /// Carries out `work`, which must not call this line, and shows `doing` for as long as it takes.
  void during(std::string_view doing, const std::function<void()>& work);

 private:
  void draw(const std::string& text);

  std::string work_;
  std::size_t runs_;
  std::size_t run_ = 0;
  std::string planner_;
  bool on_terminal_;
  bool drawn_ = false;
  TimeNs next_;  // of the monotonic clock: not drawn before
};

}  // namespace spillway::tools
