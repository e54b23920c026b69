// SPDX-License-Identifier: Apache-2.0
// The RecordFunction callbacks: what every dispatcher entry of every thread goes through.
//
// Rules, each of which was found by breaking a program:
// 1. Inputs are restored at every depth, not only at the outermost op.
// 2. Everything touched inside an outermost op stays pinned until that op ends
// (runtime/exec/frames).
// 3. Ops that only loop over dispatched ops (`_foreach_*` on a CPU) are transparent: they neither
//    restore nor pin, so that an optimizer step needs one parameter's state at a time, not all.
// 4. Nothing may be thrown here: torch swallows it. A storage that cannot be brought back stays
//    refused, and the kernel raises our text when it reads.
// 5. An op's arguments are the last of what its call records: see arguments_of.
#include <ATen/autocast_mode.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "hook/running_call.hpp"
#include "hook/traced_op.hpp"
#include "ops/op_facts.hpp"
#include "ops/op_key.hpp"
#include "ops/op_tensors.hpp"
#include "ops/op_values.hpp"
#include "session/access_flag.hpp"
#include "session/small_versions.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/exec/frame_scope.hpp"
#include "spillway/runtime/exec/out_of_budget.hpp"
#include "threads/unseen_ops.hpp"

namespace spillway::torch {

namespace {

using runtime::Access;
using runtime::Engine;
using runtime::FrameScope;
using runtime::StorageRecord;

enum class Kind : std::uint8_t { kIgnored, kScope, kFrame, kTransparent, kNode };

// Ops that never allocated this much at once are not told apart by what they need: working that out
// is a tenth of the hook's time, and a budget that so little exceeds is not met half-way.
constexpr Bytes kMuch = kMiB;

struct Open {
  Kind kind = Kind::kIgnored;
  const OpFacts* facts = nullptr;      // of frames and transparent ops
  bool leaf = false;                   // of the traced op
  std::optional<Engine::Reach> reach;  // of an op with an argument that is closed
  FrameScope frame;
  std::optional<RunningCall> call;               // of an op that could be run again
  std::vector<const c10::StorageImpl*> written;  // of those that no engine moves
  std::vector<c10::StorageImpl*> refused;        // inputs that the op could not have
  bool calls_itself = false;                     // an op of the same name began within
};

// The threads on which gloo runs collectives hold pointers to what they made while they run further
// ops, outside any op of their own.
bool runs_collectives() {
  std::array<char, 16> name{};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::strcmp(name.data(), "pt_gloo_runloop") == 0;
}

struct ThreadHook {
  std::vector<Open> open;   // one entry per callback pair that has begun and not ended
  bool boundary = false;    // an optimizer step began since the last op
  std::size_t frames = 0;   // of them, entries that are frames
  std::size_t keeping = 0;  // of these, ops that go on using what they make
  bool unwatched = false;   // inside an op that began while the engine did not watch
  const bool keeps_all = runs_collectives();
  TracedOp traced;
  WatchedThread& thread = this_watched_thread();
};
thread_local ThreadHook t_hook;

// Not counting the names that a program gives to parts of itself.
bool inside_no_seen_op() {
  return std::ranges::all_of(t_hook.open,
                             [](const Open& opened) { return opened.kind == Kind::kScope; });
}

void end_unwatched_ops() {
  if (!t_hook.unwatched || !inside_no_seen_op()) return;
  t_hook.unwatched = false;
  t_hook.thread.trust();
}

// Collectives run on other threads after they returned, with buffers made on the way too; packed
// weights are read through an object.
bool goes_on_using(const OpFacts& facts) { return facts.collective || facts.packs; }

// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
struct Visit final : ValueVisitor {
  Visit(const Engines& of_process, const OpFacts& of_op) : engines(of_process), facts(of_op) {}

  const Engines& engines;
  const OpFacts& facts;
  std::vector<const c10::StorageImpl*>* written = nullptr;  // of those that no engine moves; null:
                                                            // their versions are nobody's to know
  std::vector<c10::StorageImpl*>* refused = nullptr;
  Access access = Access::kRead;
  bool is_output = false;
  c10::TensorImpl* shown_by = nullptr;  // the tensor whose storage is visited
  std::string closed_part;              // what could not be looked into, if anything

  void storage(c10::StorageImpl& storage) override {
    const Managed found = engines.find(storage);
    if (!found) {
      if (access == Access::kWrite && written != nullptr) begin_small_write(storage);
      return;
    }
    StorageRecord& record = *found.record;
    Engine& engine = found.engine();
    if (is_output) engine.produced(record, facts.name);  // pinned before it can be chosen
    found.device->bind(record, storage, is_output ? shown_by : nullptr);
    if (is_output) {
      if (t_hook.keeping != 0 || t_hook.keeps_all ||
          Watch::keep_made.load(std::memory_order_relaxed)) {
        engine.exempt(record);
      }
    } else if (const bool stays = goes_on_using(facts) || facts.keep;
               !(stays ? engine.exempt(record) : engine.use(record, access))) {
      refuse_access(storage, Engine::last_failure());
      set_pending_failure(Engine::last_failure(), Engine::last_failure_kind());
      if (refused != nullptr) refused->push_back(&storage);
    }
  }

  void begin_small_write(const c10::StorageImpl& storage) const {
    begin_small_version(storage);
    written->push_back(&storage);
  }

  void closed(const std::string& name) override { closed_part = name; }

  void tensor(const at::Tensor& tensor) override {
    if (!tensor.defined()) return;
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (impl->has_storage()) {
      shown_by = impl;
      storage(*impl->unsafe_storage().unsafeGetStorageImpl());
      shown_by = nullptr;
    }
    parts(*impl);
  }

  // Layouts that hold their data in further tensors.
  void parts(c10::TensorImpl& impl) {
    if (impl.is_sparse()) {
      auto& sparse = static_cast<at::SparseTensorImpl&>(impl);
      tensor(sparse.indices());
      tensor(sparse.values());
    } else if (impl.is_sparse_compressed()) {
      auto& sparse = static_cast<at::SparseCsrTensorImpl&>(impl);
      tensor(sparse.compressed_indices());
      tensor(sparse.plain_indices());
      tensor(sparse.values());
    } else if (impl.key_set().has(c10::DispatchKey::NestedTensor) &&
               !impl.key_set().has(
                   c10::DispatchKey::Python)) {  // Python's jagged layout is a wrapper
      auto& nested = static_cast<at::native::NestedTensorImpl&>(impl);
      description(nested.get_nested_sizes());
      description(nested.get_nested_strides());
      description(nested.get_storage_offsets());
    } else if (impl.key_set().has(c10::DispatchKey::Quantized)) {
      const at::QuantizerPtr quantizer = static_cast<at::QTensorImpl&>(impl).quantizer();
      const at::QScheme scheme = quantizer->qscheme();
      if (scheme != at::kPerChannelAffine && scheme != at::kPerChannelAffineFloatQParams) return;
      const auto& channels = static_cast<const at::PerChannelAffineQuantizer&>(*quantizer);
      description(channels.scales());
      description(channels.zero_points());
    }
  }

  // The memory that says how a tensor is laid out is itself read without an op: by `size`, `==`,
  // indexing. Small beside what it describes, it stays for life.
  void description(const at::Tensor& part) {
    if (!part.defined() || !part.has_storage()) return;
    const Managed found = engines.find_bound(*part.storage().unsafeGetStorageImpl());
    if (found) found.engine().exempt(*found.record);
  }

  void value(const c10::IValue& value) { visit_value(value, *this); }
};

// Autograd nodes and user scopes: no dispatcher op, no frame.
void on_scope(const Engines& engines, const at::RecordFunction& function) {
  const char* name = function.name();
  if (std::strncmp(name, "Optimizer.step#", 15) == 0) t_hook.boundary = true;
  if (!Watch::keep_gradients.load(std::memory_order_relaxed) ||
      std::strcmp(name, "torch::autograd::AccumulateGrad") != 0) {
    return;
  }
  // The reducer compares storages through accessors that refuse what is not in memory.
  static const OpFacts gradients{.name = "torch::autograd::AccumulateGrad",
                                 .name_hash = 0,
                                 .written = 0,
                                 .arguments = 1,
                                 .results = 0,
                                 .needs_vary = true,
                                 .collective = true,
                                 .packs = false,
                                 .repeatable = Repeatable::kNo,
                                 .statistics = {},
                                 .has_kernel = true,
                                 .shows_arguments = false,
                                 .reads_number = false,
                                 .keep{false},
                                 .transparent{false},
                                 .called_others{false}};
  Visit visit{engines, gradients};
  for (const c10::IValue& input : function.inputs()) visit.value(input);
}

// Composites make the sizes of nested tensors themselves, and read them, whatever they do with
// others. (Those of the jagged layout are wrappers, and known to Python alone.)
bool takes_nested(const OpFacts& facts, const at::RecordFunction& function) {
  return std::ranges::any_of(arguments_of(facts, function), [](const c10::IValue& input) {
    if (!input.isTensor()) return false;
    const c10::DispatchKeySet keys = input.toTensor().unsafeGetTensorImpl()->key_set();
    return keys.has(c10::DispatchKey::NestedTensor) && !keys.has(c10::DispatchKey::Python);
  });
}

bool casts() {
  return at::autocast::is_autocast_enabled(at::kCPU) ||
         at::autocast::is_autocast_enabled(at::kCUDA);
}

bool inside_transparent() {
  return !t_hook.open.empty() && t_hook.open.back().kind == Kind::kTransparent;
}

// For the tests that look for composites which may be transparent.
void note_caller() {
  if (!inside_transparent()) return;
  t_hook.open.back().facts->called_others.store(true);
}

// Before the frame, whose time is the op's. True for a leaf of the traced op.
bool trace_op(Engine& engine, const at::RecordFunction& function) {
  if (t_hook.boundary) OpOrigins::get().begin_step();
  if (t_hook.frames == 0) t_hook.traced.begin(function);
  return t_hook.traced.enter(engine, function);
}

void say_that_nothing_leaves(const OpFacts& facts, const std::string& closed_part) {
  static std::once_flag said;
  std::call_once(said, [&] {
    std::fprintf(stderr,
                 "spillway: %s is given %s, which can't be looked into: while such an op runs no "
                 "tensor leaves memory, and the budget may be exceeded. What it uses of tensors "
                 "that have left is an error: hold those with spillway.resident.\n",
                 facts.name, closed_part.c_str());
  });
}

// A graph that is captured uses its tensors whenever it is replayed, unseen: they stay. What is
// away comes back before the op goes on: a capture may not wait for it, but the host may.
// NOLINTNEXTLINE(cppcoreguidelines-virtual-class-destructor): it is final
struct VisitOfCapture final : ValueVisitor {
  void storage(c10::StorageImpl& storage) override {
    const Managed found = Engines::find_bound(storage);
    if (!found) return;
    if (found.engine().exempt(*found.record)) return;
    const std::string text = "Spillway: a graph is being captured with a tensor that has left: " +
                             Engine::last_failure();
    refuse_access(storage, text);
    set_pending_failure(text, Engine::last_failure_kind());
  }
  void tensor(const at::Tensor& tensor) override {
    if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
    storage(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
  }
  void closed(const std::string& /*name*/) override {}
};

// False: the op is not one of the engine's.
bool enter_card(const Engines& engines, Engine& engine, const OpFacts& facts,
                const at::RecordFunction& function) {
  Card* const card = engines.card();
  if (card == nullptr || engine.in_child()) return true;
  if (t_hook.frames != 0) {
    // An op may go on in another stream inside. It was none of a capture when it began.
    static_cast<void>(card->enter_stream(engine));
    return true;
  }
  card->follow_unmanaged();
  if (card->enter_stream(engine)) return true;
  VisitOfCapture visit;
  for (const c10::IValue& input : arguments_of(facts, function)) visit_value(input, visit);
  return false;
}

// Before the op's other inputs are pinned, beside which there may be no room for it.
void make_dropped_inputs(c10::ArrayRef<const c10::IValue> inputs) {
  for (const c10::IValue& input : inputs) {
    each_tensor(input, [&](const at::Tensor& tensor) {
      c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      if (!impl.has_storage()) return;
      const Managed found = Engines::find(*impl.unsafe_storage().unsafeGetStorageImpl());
      if (found) found.engine().make_dropped(*found.record);
    });
  }
}

// Whatever it throws, `opened` says what has begun, so that on_end ends it.
void open_frame(const Engines& engines, const at::RecordFunction& function, Open& opened) {
  Engine& engine = engines.main().engine();
  opened.facts = facts_of(function);
  if (opened.facts == nullptr) {
    on_scope(engines, function);
    if (!engine.tracing() || function.scope() != at::RecordScope::BACKWARD_FUNCTION) return;
    OpOrigins::enter_node(function.seqNr());
    opened.kind = Kind::kNode;
    return;
  }
  const OpFacts& facts = *opened.facts;
  if (!enter_card(engines, engine, facts, function)) return;
  if (engine.mode() == runtime::Mode::kFuzz) note_caller();
  if (facts.transparent.load(std::memory_order_relaxed) &&
      !facts.keep.load(std::memory_order_relaxed) && !takes_nested(facts, function)) {
    opened.kind = Kind::kTransparent;
    // Nothing that it may not read must be there by chance. (The result of `torch.tensor` of
    // tensors is being filled while numbers are read.)
    if (!facts.reads_number) engine.push_out(true);
    return;
  }
  opened.leaf = engine.tracing() && trace_op(engine, function);
  const auto inputs = arguments_of(facts, function);
  opened.kind = Kind::kFrame;
  t_hook.keeping += goes_on_using(facts) ? 1U : 0U;
  const bool outermost = t_hook.frames++ == 0;
  opened.frame.begin(
      engine, {.name = facts.name,
               .signature = op_signature(facts.name_hash, inputs),
               .boundary = std::exchange(t_hook.boundary, false),
               .key = facts.needs_much.load(std::memory_order_relaxed) ? op_key(facts, inputs) : 0,
               .between = facts.reads_number});
  if (outermost && engine.blind()) Watch::get().op_begins_while_blind(function);
  if (outermost && engine.any_dropped()) make_dropped_inputs(inputs);
  Visit visit{engines, facts};
  if (engine.recomputes()) {
    for (Open& around : t_hook.open) around.calls_itself |= around.facts == &facts;
    if (facts.repeatable != Repeatable::kNo) opened.call.emplace(engines, facts, function);
    visit.written = &opened.written;
  }
  visit.refused = &opened.refused;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    visit.access = facts.writes(i) ? Access::kWrite : Access::kRead;
    visit.value(inputs[i]);
  }
  if (!visit.closed_part.empty()) {
    opened.reach.emplace(engine);
    begin_all_small_versions();
    say_that_nothing_leaves(facts, visit.closed_part);
  }
  if (!engine.inputs_ready())
    set_pending_failure(Engine::last_failure(), Engine::last_failure_kind());
  if (opened.call) opened.call->begin(engines, function);
}

// Autocast calls an op again with other inputs, and that one is the call to repeat. What an op with
// a kernel of its own called is part of how it made its results, and not all.
void say_how_made(const Engines& engines, const at::RecordFunction& function, Open& opened) {
  const OpFacts& facts = *opened.facts;
  if (!engines.main().engine().recomputes()) return;
  if (opened.call && !opened.calls_itself) {
    opened.call->end(engines, function);
  } else if (facts.has_kernel && !(opened.calls_itself && casts())) {
    forget_makings(engines, facts, function);
  }
}

// What is in memory was refused to that op alone: what it would write could not be copied or made
// elsewhere first.
void allow_again(const Engines& engines, const std::vector<c10::StorageImpl*>& refused) {
  for (c10::StorageImpl* storage : refused) {
    const Managed found = engines.find(*storage);
    const bool here = found && found.record->state.load() == residency::ResidencyState::kResident;
    if (here) allow_access(*storage);
  }
}

// The frame ends with `opened` if this throws: results that were not looked at stay where they are.
void close_frame(const Engines& engines, const at::RecordFunction& function, Open& opened) {
  Engine& engine = engines.main().engine();
  const bool outermost = --t_hook.frames == 0;
  t_hook.keeping -= goes_on_using(*opened.facts) ? 1U : 0U;
  if (opened.leaf) t_hook.traced.leave(function);
  allow_again(engines, opened.refused);
  engine.end_writes();
  // Ops inside may have been another's.
  if (Card* const card = engines.card()) static_cast<void>(card->enter_stream(engine));
  for (const c10::StorageImpl* storage : opened.written) begin_small_version(*storage);
  Visit visit{engines, *opened.facts};
  visit.is_output = true;
  for (const c10::IValue& output : results_of(*opened.facts, function)) visit.value(output);
  say_how_made(engines, function, opened);
  if (outermost && engine.tracing()) engine.note(t_hook.traced.notes());
  if (opened.frame.end() >= kMuch) opened.facts->needs_much.store(true);
  clear_pending_failure();
  if (inside_no_seen_op()) Watch::get().consider_rest(function);
}

// While the engine does not watch, what an op uses is pinned by nothing: for as long as it runs its
// thread is in doubt. True if the engine has begun to watch meanwhile.
bool has_begun_to_watch(const Engine& engine, const at::RecordFunction& function) {
  if (function.scope() == at::RecordScope::USER_SCOPE) return false;
  if (!t_hook.thread.in_doubt()) {
    t_hook.thread.doubt();
    t_hook.unwatched = true;
  }
  // Either this thread sees that watching has begun, or who began it sees the doubt.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!engine.watching()) return false;
  end_unwatched_ops();
  return true;
}

// The hook may not throw. What it does for an op may lack memory of torch's or of the kernel's,
// too.
void leave_for_the_op(const std::exception& error) {
  const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
  std::string text = of_torch != nullptr ? of_torch->what_without_backtrace() : error.what();
  if (!text.starts_with("Spillway: ")) text = "Spillway: " + text;
  const bool short_of_memory = dynamic_cast<const runtime::OutOfBudget*>(&error) != nullptr ||
                               dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                               dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  set_pending_failure(
      text, short_of_memory ? runtime::FailureKind::kShortage : runtime::FailureKind::kUnreadable);
}

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& function) {
  Open opened;
  if (function.scope() == at::RecordScope::USER_SCOPE) opened.kind = Kind::kScope;
  try {
    const Engines& engines = Engines::get();
    const Engine& engine = engines.main().engine();
    if (engine.watching() || has_begun_to_watch(engine, function)) {
      open_frame(engines, function, opened);
    }
  } catch (const std::exception& error) {
    leave_for_the_op(error);
  }
  t_hook.open.push_back(std::move(opened));
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext*) {
  if (t_hook.open.empty()) return;
  Open opened = std::move(t_hook.open.back());
  t_hook.open.pop_back();
  end_unwatched_ops();
  if (opened.kind == Kind::kNode) OpOrigins::leave_node();
  if (opened.kind != Kind::kFrame) return;
  try {
    const Engines& engines = Engines::get();
    close_frame(engines, function, opened);
    if (inside_transparent()) engines.main().engine().push_out(false);
  } catch (const std::exception& error) {
    leave_for_the_op(error);
  }
}

}  // namespace

at::RecordFunctionCallback hook_callback() {
  return at::RecordFunctionCallback(on_start, on_end)
      .needsInputs(true)
      .needsOutputs(true)
      .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
               at::RecordScope::USER_SCOPE});
}

}  // namespace spillway::torch
