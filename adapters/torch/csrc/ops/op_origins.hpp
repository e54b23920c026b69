// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "torch_headers.hpp"

namespace spillway::torch {

/// Number of the program line that runs now; 0 where none is known. Called with the interpreter's
/// lock free to take.
using WhereFunction = std::uint32_t (*)();

/// The places in the program that ops come from: the module whose forward pass called them, and the
/// line.
///
/// Ops of the backward pass come from where the forward op of their autograd node came from, which
/// they share a sequence number with. One per process; thread-safe. The interpreter is called
/// without the mutex.
class OpOrigins {
 public:
  struct Origin {
    const std::string* module;  ///< never null, never freed; empty where it is not known
    const std::string* source;  ///< likewise
  };

  static OpOrigins& get();

  /// Clears lines and nodes; `where` may be null.
  void begin(WhereFunction where);
  /// Clears nodes.
  void begin_step();
  /// Text of a number that `where` returned.
  void name_line(std::uint32_t number, std::string_view text);

  /// The module whose forward pass the calling thread is in.
  void enter_module(std::string_view name);
  /// The module that the calling thread is in has a name.
  [[nodiscard]] static bool in_module();
  /// The calling thread runs an autograd node: the scope of its function is entered and left.
  static void enter_node(std::int64_t sequence_number);
  static void leave_node();
  [[nodiscard]] static bool in_node();

  /// The origin of an op that the calling thread begins.
  Origin of(const at::RecordFunction& function);

 private:
  const std::string* kept(std::string_view text);

  std::atomic<WhereFunction> where_{nullptr};
  std::mutex mutex_;
  std::set<std::string, std::less<>> texts_;          // its elements stay where they are
  std::unordered_map<std::int64_t, Origin> forward_;  // by sequence number of the autograd node
  std::unordered_map<std::uint32_t, const std::string*> lines_;
};

}  // namespace spillway::torch
