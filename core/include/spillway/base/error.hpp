// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace spillway {

/// Something the person who runs the program can mend: a bad option, a missing directory, a full
/// disk. The text says what was wrong, where, need / have / short where bytes are concerned, and
/// what to do.
class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A broken contract inside Spillway: a bug of ours.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition,
                                       const std::string& detail);

}  // namespace spillway

/// Checks a contract in every build type. `detail` is a std::string with the operands.
#define SPILLWAY_CHECK(condition, detail)                                         \
  do {                                                                            \
    if (!(condition)) [[unlikely]] {                                              \
      ::spillway::throw_internal_error(__FILE__, __LINE__, #condition, (detail)); \
    }                                                                             \
  } while (false)
