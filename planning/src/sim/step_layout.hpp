// SPDX-License-Identifier: Apache-2.0
// The parts of a trace that a simulation looks at, laid out for walking them many times.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning::sim {

/// A storage that an op uses without creating it.
struct Need {
  StorageId storage{};
  bool writes = false;
};

class StepLayout {
 public:
  /// Keeps no reference to the trace.
  explicit StepLayout(const Trace& trace);

  [[nodiscard]] std::size_t ops() const { return created_.size(); }
  /// Each storage once.
  [[nodiscard]] std::span<const Need> needs(std::size_t op) const {
    return std::span(needs_).subspan(offsets_[op], offsets_[op + 1] - offsets_[op]);
  }
  /// Bytes of what the op creates.
  [[nodiscard]] Bytes created(std::size_t op) const { return created_[op]; }

  /// Alive when the step begins: persistent, left over from the step before, or new to it.
  struct Beginning {
    StorageId storage{};
    StorageId before{};  ///< what it was at the end of the step before; kNoStorage: it is new
  };
  [[nodiscard]] std::span<const Beginning> beginnings() const { return beginnings_; }
  /// Alive when the step ends, and gone with it.
  [[nodiscard]] std::span<const StorageId> endings() const { return endings_; }

 private:
  void lay_out_needs(const Trace& trace);
  void lay_out_ends(const Trace& trace);

  std::vector<Need> needs_;
  std::vector<std::size_t> offsets_{0};
  std::vector<Bytes> created_;
  std::vector<Beginning> beginnings_;
  std::vector<StorageId> endings_;
};

}  // namespace spillway::planning::sim
