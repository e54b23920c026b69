// SPDX-License-Identifier: Apache-2.0
// Steps written down in a test: a storage per line, an op per line, times and sizes that can be
// added up by hand.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::testing {

/// Links of one byte per nanosecond without latency, and no budgets to speak of.
Machine plain_machine();

/// Appends rows with names that a message can be read by. Everything else of a row stays as it is.
class StepBuilder {
 public:
  StorageId persistent(std::uint64_t bytes, std::string name);
  StorageId temporary(std::uint64_t bytes, std::string name);

  struct Op {
    std::vector<StorageId> creates{};
    std::vector<StorageId> reads{};
    std::vector<StorageId> writes{};
    std::vector<StorageId> frees{};
    std::uint64_t workspace = 0;
    bool recomputable = false;
  };
  /// Writes what it creates, too.
  OpIndex op(TimeNs duration, Op op);

  [[nodiscard]] Trace& trace() { return trace_; }
  /// The trace, which must be valid.
  [[nodiscard]] Trace build() const;

 private:
  Trace trace_;
};

}  // namespace spillway::testing
