// SPDX-License-Identifier: Apache-2.0
// Runs a program that records itself without memory, as `spillway record --without-memory` does,
// with nothing of it on the terminal.
//
// The program has no standard input; what it prints is kept and shown only where it fails. Ctrl-C
// reaches the program, and ends this process too once the program has ended and all is tidied up.
// Single-threaded.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "spillway/runtime/settings.hpp"

namespace spillway::tools {

/// This process's environment with what makes the Python package record one step to `trace`: no
/// setting of the engine, which is not there. `machine`, `assume`: may be empty.
std::vector<runtime::NameValue> recording_environment(const std::string& trace,
                                                      const std::string& machine,
                                                      const std::string& assume);

/// Thrown where Ctrl-C or Ctrl-\ ended the program: this process shall end by the same signal.
struct Interrupted {
  int signal = 0;
};

/// Runs `command` until it ends, calling `on_tick` some times a second; its output goes to the
/// file `log`. Throws UserError, with the last lines of the output, where the program cannot be
/// started, fails, or leaves no trace; Interrupted.
void record_quietly(const std::vector<std::string>& command, const std::string& trace,
                    const std::string& assume, const std::string& log,
                    const std::function<void()>& on_tick);

}  // namespace spillway::tools
