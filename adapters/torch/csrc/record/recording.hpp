// SPDX-License-Identifier: Apache-2.0
// Records a step without memory: the RecordFunction callback that writes down what ops do to
// storages of the meta device, which have sizes and no bytes.
//
// A row is one leaf: an op with a kernel of its own that touches memory. Views and ops that only
// call others leave no row. Nothing is seen below a leaf, where meta's kernels are partly made of
// further ops. A storage without data dies when the deleter of its null pointer is called, so
// deaths are exact and nothing is held.
//
// Autograd and linear layers take meta tensors for wrappers and add gradients and biases out of
// place, which no device does: such an addition whose first operand dies with it is recorded as the
// in-place one.
//
// Callbacks may come from any thread. The mutex is taken last; the interpreter is called without
// it.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "ops/op_cost.hpp"
#include "ops/op_origins.hpp"
#include "ops/recorded_op_facts.hpp"
#include "record/step_rows.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

struct RecordingOptions {
  WhereFunction where = nullptr;  ///< see OpOrigins
  TensorFloat32Use rounding{};
  bool with_data = false;  ///< storages of the CPU too: what a recording without memory is
                           ///< compared with
};

class Recording {
 public:
  static Recording& get();

  void begin(const RecordingOptions& options);
  void begin_step();
  void end();

  void describe(c10::StorageImpl& storage, StorageRole role, std::string_view name);
  /// The leaf that the calling thread began last.
  [[nodiscard]] std::string last_op() const;
  /// The step since begin_step.
  [[nodiscard]] Trace trace() const;
  /// Ops that devices run as one kernel and that were recorded as their parts.
  [[nodiscard]] std::set<std::string> decomposed() const;

  // For the callbacks.
  struct OpenOp;
  enum class Opened : std::uint8_t { kNothing, kLeaf, kNode, kEngine, kAccumulation, kBias };
  Opened open(const at::RecordFunction& function);
  void close(const at::RecordFunction& function, Opened what);
  void died(c10::StorageImpl* storage);

 private:
  struct Seen {
    std::uint32_t row;
    std::uint64_t bytes;
  };

  Opened open_scope(const at::RecordFunction& function);
  void open_leaf(const at::RecordFunction& function, const RecordedOpFacts& facts);
  void close_leaf(const at::RecordFunction& function);
  [[nodiscard]] bool is_recorded(const at::Tensor& tensor) const;
  Seen& see(c10::StorageImpl& storage, bool& added);
  void visit_input(const at::Tensor& tensor, bool written, bool overwritten);
  void visit_output(const at::Tensor& tensor);
  void finish(OpenOp& op);

  std::atomic<bool> on_{false};
  RecordingOptions options_;
  at::CallbackHandle callback_ = 0;  // while it is on

  mutable std::mutex mutex_;
  StepRows rows_;
  std::unordered_map<c10::StorageImpl*, Seen> seen_;
  std::set<std::string> decomposed_;
  // The addition that was the latest op, in case its operand dies.
  struct Addition {
    std::uint32_t operand = kNoRow;
    c10::StorageImpl* result = nullptr;
    std::uint64_t signature = 0;  // as of an addition in place
  } addition_;
};

}  // namespace spillway::torch
