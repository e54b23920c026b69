// SPDX-License-Identifier: Apache-2.0
#include "hook/traced_op.hpp"

#include <algorithm>
#include <string_view>

#include "ops/op_tensors.hpp"
#include "session/engines.hpp"

namespace spillway::torch {

void TracedOp::begin(const at::RecordFunction& function) {
  origin_ = OpOrigins::get().of(function);
  leaf_ = nullptr;
  flop_.reset();
  bytes_ = 0;
  arithmetic_ = Arithmetic::kUnknown;
  pure_ = true;
  any_leaf_ = false;
  makes_inputs_ = !OpOrigins::in_node() && !OpOrigins::in_module();
  overwritten_.clear();
  read_.clear();
}

bool TracedOp::enter(runtime::Engine& engine, const at::RecordFunction& function) {
  if (leaf_ != nullptr) return false;
  const RecordedOpFacts* facts = recorded_facts_of(function);
  if (facts == nullptr || !facts->leaf) return false;
  leaf_ = facts;
  any_leaf_ = true;
  const auto inputs = arguments_of(*facts->op, function);
  costs_ = true;
  for (const c10::IValue& value : inputs) {
    each_tensor(value,
                [&](const at::Tensor& tensor) { costs_ = costs_ && has_plain_sizes(tensor); });
  }
  cost_ = costs_ ? OpCost(*facts, inputs, {}) : OpCost();
  const std::string_view name = facts->op->name;
  pure_ = pure_ && !facts->draws(inputs) && !facts->uninitialized && name.starts_with("aten::");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool written = facts->op->writes(i);
    const bool overwritten = written && facts->overwrites_argument(i);
    each_tensor(inputs[i],
                [&](const at::Tensor& tensor) { input(engine, tensor, written, overwritten); });
  }
  return true;
}

void TracedOp::input(runtime::Engine& engine, const at::Tensor& tensor, bool written,
                     bool overwritten) {
  if (!has_plain_sizes(tensor)) {
    pure_ = makes_inputs_ = false;
    return;
  }
  if (!tensor.has_storage() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
  makes_inputs_ = false;
  if (costs_) cost_.input(tensor, overwritten);
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (storage.nbytes() == 0) return;
  const Managed found = Engines::find(storage);
  if (!found || &found.engine() != &engine) {
    pure_ = false;  // memory that a trace knows nothing of: it may be another when it runs again
    return;
  }
  const bool whole = overwritten && addressed_bytes(tensor) == storage.nbytes();
  (written && whole ? overwritten_ : read_).push_back(found.record->id);
}

void TracedOp::leave(const at::RecordFunction& function) {
  for (const c10::IValue& output : results_of(*leaf_->op, function)) {
    each_tensor(output, [&](const at::Tensor& tensor) {
      costs_ = costs_ && has_plain_sizes(tensor);
      if (costs_ && tensor.has_storage()) cost_.output(tensor);
    });
  }
  leaf_ = nullptr;
  if (!costs_) return;
  if (const auto flop = cost_.flop()) flop_ = flop_.value_or(0) + *flop;
  bytes_ += cost_.bytes();
  if (arithmetic_ == Arithmetic::kUnknown) arithmetic_ = cost_.arithmetic();
}

runtime::OpNotes TracedOp::notes() const {
  runtime::OpNotes notes{.flop = flop_,
                         .arithmetic = arithmetic_,
                         .pure = pure_ && any_leaf_,
                         .makes_inputs = makes_inputs_,
                         .module = *origin_.module,
                         .source = *origin_.source};
  if (bytes_ != 0) notes.bytes_touched = Bytes{bytes_};
  const bool read_too = std::ranges::any_of(
      overwritten_, [&](StorageId id) { return std::ranges::find(read_, id) != read_.end(); });
  if (!read_too) notes.overwritten = overwritten_;
  return notes;
}

}  // namespace spillway::torch
