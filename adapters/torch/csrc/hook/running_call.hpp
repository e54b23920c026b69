// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "ops/op_facts.hpp"
#include "recompute/op_call.hpp"
#include "session/engines.hpp"
#include "spillway/runtime/exec/engine.hpp"

namespace spillway::torch {

/// An op that runs and could be run again, from before its first input is used until its results
/// are there: then the engine is told how they were made. One thread's.
class RunningCall {
 public:
  RunningCall(const Engines& engines, const OpFacts& facts, const at::RecordFunction& function);
  /// Its inputs are there: from now on the time is its own.
  void begin(const Engines& engines, const at::RecordFunction& function);
  void end(const Engines& engines, const at::RecordFunction& function);

 private:
  [[nodiscard]] TimeNs estimate(const at::Tensor& result) const;

  const OpFacts& facts_;
  bool remembered_ = false;
  OpCall::Begun begun_;
  TimeNs began_ = 0;
  double read_bytes_ = 0;
  runtime::StorageRecord* overwritten_ = nullptr;
  runtime::Making::Source before_;  // of what it overwrites
};

/// The op that `function` records may have made its results in a way that nobody knows: what an op
/// within it said does not hold.
void forget_makings(const Engines& engines, const OpFacts& facts,
                    const at::RecordFunction& function);

}  // namespace spillway::torch
