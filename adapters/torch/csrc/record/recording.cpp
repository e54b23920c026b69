// SPDX-License-Identifier: Apache-2.0
#include "record/recording.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <vector>

#include "ops/op_key.hpp"
#include "ops/op_tensors.hpp"
#include "spillway/base/name_hash.hpp"

namespace spillway::torch {

struct Recording::OpenOp {
  const RecordedOpFacts* facts = nullptr;
  RecordedOp row;
  OpCost cost;
  std::vector<c10::StorageImpl*> inputs;  // while the op runs its caller holds them
  bool has_input = false;
  bool from_host = false;    // reads a tensor that is not recorded
  bool random = false;       // drops out
  bool accumulates = false;  // an addition that devices do in place
  std::uint64_t signature_in_place = 0;
};

namespace {

struct ThreadState {
  std::vector<Recording::Opened> open;
  int engine = 0;
  int accumulations = 0;
  int biases = 0;
  const RecordedOpFacts* last = nullptr;
  Recording::OpenOp op;
};
thread_local ThreadState t_state;

std::uint32_t thread_number() {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t number = next.fetch_add(1);
  return number;
}

void add_once(std::vector<std::uint32_t>& row, std::uint32_t storage) {
  if (std::ranges::find(row, storage) == row.end()) row.push_back(storage);
}

void delete_null(void* storage) { Recording::get().died(static_cast<c10::StorageImpl*>(storage)); }

// Data that is really there, below a deleter that tells of its end.
struct WatchedData {
  c10::StorageImpl* storage;
  c10::DataPtr data;
};
void delete_watched(void* context) {
  auto* watched = static_cast<WatchedData*>(context);
  Recording::get().died(watched->storage);
  delete watched;
}

void watch(c10::StorageImpl& storage) {
  c10::DataPtr& data = storage._mutable_data_ptr_no_checks();
  if (data.get_deleter() == &delete_null || data.get_deleter() == &delete_watched) return;
  if (data.get() == nullptr) {
    if (data.get_context() == nullptr) {
      storage.set_data_ptr_noswap({nullptr, &storage, &delete_null, storage.device()});
    }
    return;
  }
  void* const address = data.get();
  auto* watched = new WatchedData{&storage, std::move(data)};
  storage.set_data_ptr_noswap({address, watched, &delete_watched, storage.device()});
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  auto opened = Recording::Opened::kNothing;
  try {
    opened = Recording::get().open(function);
  } catch (const std::exception&) {
    opened = Recording::Opened::kNothing;
  }
  t_state.open.push_back(opened);
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (t_state.open.empty()) return;
  const auto opened = t_state.open.back();
  t_state.open.pop_back();
  Recording::get().close(function, opened);
}

}  // namespace

Recording& Recording::get() {
  static auto* recording = new Recording();
  return *recording;
}

void Recording::begin(const RecordingOptions& options) {
  const std::lock_guard lock(mutex_);
  options_ = options;
  rows_ = {};
  seen_.clear();
  decomposed_.clear();
  addition_ = {};
  OpOrigins::get().begin(options.where);
  if (on_.exchange(true)) return;
  callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start, on_end)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

void Recording::begin_step() {
  const std::lock_guard lock(mutex_);
  rows_.begin_step();
  for (auto& [storage, seen] : seen_) seen.row = rows_.moved()[seen.row];
  addition_ = {};
  OpOrigins::get().begin_step();
}

void Recording::end() {
  if (!on_.exchange(false)) return;
  at::removeCallback(callback_);
}

void Recording::describe(c10::StorageImpl& storage, StorageRole role, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (storage.nbytes() == 0) return;
  bool added = false;
  const Seen& seen = see(storage, added);
  rows_.describe(seen.row, role, name);
}

std::string Recording::last_op() const {
  return t_state.last == nullptr ? std::string() : t_state.last->op->name;
}

Trace Recording::trace() const {
  const std::lock_guard lock(mutex_);
  return rows_.trace();
}

std::set<std::string> Recording::decomposed() const {
  const std::lock_guard lock(mutex_);
  return decomposed_;
}

bool Recording::is_recorded(const at::Tensor& tensor) const {
  if (!tensor.has_storage()) return false;
  if (tensor.is_meta()) return true;
  return options_.with_data && tensor.is_cpu() &&
         !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

Recording::Seen& Recording::see(c10::StorageImpl& storage, bool& added) {
  const auto [entry, fresh] = seen_.try_emplace(&storage, Seen{kNoRow, storage.nbytes()});
  added = fresh;
  if (fresh) {
    entry->second.row = rows_.add_storage(Bytes{storage.nbytes()});
    watch(storage);
  }
  return entry->second;
}

void Recording::died(c10::StorageImpl* storage) {
  const std::lock_guard lock(mutex_);
  const auto entry = seen_.find(storage);
  if (entry == seen_.end()) return;
  const std::uint32_t row = entry->second.row;
  rows_.free(row);
  seen_.erase(entry);
  if (addition_.operand != row) return;
  const auto result = seen_.find(addition_.result);
  if (result != seen_.end()) {
    rows_.absorb(row, result->second.row, addition_.signature);
    result->second.row = row;
  }
  addition_ = {};
}

Recording::Opened Recording::open(const at::RecordFunction& function) {
  if (!on_.load(std::memory_order_relaxed)) return Opened::kNothing;
  const RecordedOpFacts* facts = recorded_facts_of(function);
  if (facts == nullptr) return open_scope(function);
  if (!facts->leaf) {
    if (facts->fused) {
      const std::lock_guard lock(mutex_);
      decomposed_.insert(facts->op->name);
    }
    if (!facts->adds_bias) return Opened::kNothing;
    ++t_state.biases;
    return Opened::kBias;
  }
  open_leaf(function, *facts);
  // Nothing below a leaf is looked at, which also makes the meta kernels written in Python faster.
  at::enableRecordFunction(false);
  return Opened::kLeaf;
}

Recording::Opened Recording::open_scope(const at::RecordFunction& function) {
  constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";
  const std::string_view name = function.name();
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    OpOrigins::enter_node(function.seqNr());
    if (name != "torch::autograd::AccumulateGrad") return Opened::kNode;
    ++t_state.accumulations;
    return Opened::kAccumulation;
  }
  if (!name.starts_with(kEngine)) return Opened::kNothing;
  ++t_state.engine;
  return Opened::kEngine;
}

void Recording::open_leaf(const at::RecordFunction& function, const RecordedOpFacts& facts) {
  t_state.last = &facts;
  const OpOrigins::Origin origin = OpOrigins::get().of(function);
  const std::lock_guard lock(mutex_);
  addition_ = {};
  OpenOp& op = t_state.op;
  op = {};
  op.facts = &facts;
  const auto inputs = arguments_of(*facts.op, function);
  op.cost = OpCost(facts, inputs, options_.rounding);
  op.row.name = rows_.texts().number(facts.op->name);
  op.row.thread = thread_number();
  op.row.module = rows_.texts().number(*origin.module);
  op.row.source = rows_.texts().number(*origin.source);
  op.accumulates = t_state.accumulations > 0 || t_state.biases > 0 ||
                   (t_state.engine > 0 && !OpOrigins::in_node());
  op.row.signature = op_signature(facts.op->name_hash, inputs);
  if (op.accumulates) op.signature_in_place = op_signature(hash_of_name(kAdditionInPlace), inputs);
  op.random = facts.draws(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool written = facts.op->writes(i);
    each_tensor(inputs[i], [&](const at::Tensor& tensor) {
      visit_input(tensor, written, written && facts.overwrites_argument(i));
    });
  }
}

void Recording::visit_input(const at::Tensor& tensor, bool written, bool overwritten) {
  OpenOp& op = t_state.op;
  if (!is_recorded(tensor)) {
    op.from_host = op.from_host || (tensor.has_storage() && tensor.dim() > 0);
    return;
  }
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  op.has_input = true;
  op.inputs.push_back(&storage);
  op.cost.input(tensor, overwritten);
  if (storage.nbytes() == 0) return;
  bool added = false;
  const Seen& seen = see(storage, added);
  // First met within the step and not made by a leaf: code that no event shows made it.
  if (added && rows_.op_count() > 0) op.row.creates.push_back(seen.row);
  const bool whole = addressed_bytes(tensor) == storage.nbytes();
  if (!overwritten || !whole) add_once(op.row.reads, seen.row);
  if (written) add_once(op.row.writes, seen.row);
}

void Recording::visit_output(const at::Tensor& tensor) {
  if (!is_recorded(tensor)) return;
  OpenOp& op = t_state.op;
  op.cost.output(tensor);
  c10::StorageImpl& storage = *tensor.storage().unsafeGetStorageImpl();
  if (storage.nbytes() == 0) return;
  bool added = false;
  Seen& seen = see(storage, added);
  if (!added && seen.bytes != storage.nbytes()) {  // resized: other memory
    rows_.free(seen.row);
    seen = {rows_.add_storage(Bytes{storage.nbytes()}), storage.nbytes()};
    std::erase(op.row.writes, seen.row);
    added = true;
  }
  if (!added) return;
  op.row.creates.push_back(seen.row);
  if (!op.facts->uninitialized) add_once(op.row.writes, seen.row);
}

void Recording::close(const at::RecordFunction& function, Opened what) {
  switch (what) {
    case Opened::kNothing:
      return;
    case Opened::kLeaf:
      at::enableRecordFunction(true);
      close_leaf(function);
      return;
    case Opened::kAccumulation:
      --t_state.accumulations;
      [[fallthrough]];
    case Opened::kNode:
      OpOrigins::leave_node();
      return;
    case Opened::kEngine:
      --t_state.engine;
      return;
    case Opened::kBias:
      --t_state.biases;
      return;
  }
}

void Recording::close_leaf(const at::RecordFunction& function) {
  const std::lock_guard lock(mutex_);
  OpenOp& op = t_state.op;
  const auto outputs = results_of(*op.facts->op, function);
  for (const c10::IValue& output : outputs) {
    each_tensor(output, [&](const at::Tensor& tensor) { visit_output(tensor); });
  }
  finish(op);
  if (op.accumulates && op.row.creates.size() == 1 &&
      op.facts->op->name == std::string_view("aten::add.Tensor") && !op.inputs.empty()) {
    const auto operand = seen_.find(op.inputs.front());
    const std::uint32_t result = op.row.creates.front();
    for (const c10::IValue& output : outputs) {
      each_tensor(output, [&](const at::Tensor& tensor) {
        auto* storage = tensor.storage().unsafeGetStorageImpl();
        if (operand != seen_.end() && seen_.at(storage).row == result) {
          addition_ = {operand->second.row, storage, op.signature_in_place};
        }
      });
    }
  }
}

// An op that creates and writes nothing and hands out tensors only looks at memory from elsewhere:
// it moves no byte and has no row.
void Recording::finish(OpenOp& op) {
  RecordedOp& row = op.row;
  const bool views = row.creates.empty() && row.writes.empty();
  if (views) return;
  row.flop = op.cost.flop();
  row.bytes = op.cost.bytes();
  row.arithmetic = op.cost.arithmetic();
  const bool pure = std::ranges::all_of(row.writes, [&](std::uint32_t storage) {
    return std::ranges::find(row.creates, storage) != row.creates.end();
  });
  const std::string_view name = op.facts->op->name;
  row.recomputable = pure && !row.creates.empty() && !op.random && !op.from_host &&
                     !op.facts->uninitialized && name.starts_with("aten::");
  if (!op.has_input && !OpOrigins::in_node() && row.module == 0) {
    for (const std::uint32_t storage : row.creates) {
      if (!rows_.described(storage)) rows_.describe(storage, StorageRole::kInput, "");
    }
  }
  rows_.add_op(row);
}

}  // namespace spillway::torch
