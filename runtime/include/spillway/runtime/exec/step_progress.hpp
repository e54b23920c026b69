// SPDX-License-Identifier: Apache-2.0
// The progress of a step in ops: those since the last step was counted, beside what the step before
// took in all.
//
// Ops in the engine's count. Steps are counted where an optimizer begins (Engine::note_boundary),
// so that is where a step begins here. Its length is known once two were counted, since the ops
// before the first are the making of the model too; 0 until then. A value; not thread-safe; throws
// nothing.
#pragma once

#include <cstdint>

namespace spillway::runtime {

class StepProgress {
 public:
  /// A step was counted as `op` began.
  void step_counted(std::uint64_t op) {
    length_ = any_ ? op - began_ : 0;
    began_ = op;
    any_ = true;
  }
  [[nodiscard]] std::uint64_t began() const { return began_; }
  [[nodiscard]] std::uint64_t length() const { return length_; }

 private:
  bool any_ = false;
  std::uint64_t began_ = 0;
  std::uint64_t length_ = 0;
};

}  // namespace spillway::runtime
