// SPDX-License-Identifier: Apache-2.0
#include "recompute/op_call.hpp"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/List.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/repeatable_ops.hpp"
#include "recompute/below_all.hpp"
#include "spillway/base/error.hpp"
#include "threads/landing.hpp"

namespace spillway::torch {

namespace {

using runtime::StorageRecord;

c10::DispatchKeySet plain_keys(const c10::Device& device) {
  return c10::DispatchKeySet(device.is_cuda() ? c10::DispatchKey::CUDA : c10::DispatchKey::CPU);
}

// Dense, of no wrapper, transform or lazy negation.
bool is_plain(const c10::TensorImpl& tensor) {
  const c10::DispatchKeySet keys = tensor.key_set() -
                                   c10::autograd_dispatch_keyset_with_ADInplaceOrView -
                                   c10::autocast_dispatch_keyset;
  const c10::Device device = tensor.device();
  return tensor.layout() == c10::kStrided && tensor.has_storage() &&
         !tensor.has_symbolic_sizes_strides() && (device.is_cpu() || device.is_cuda()) &&
         keys == plain_keys(device);
}

// The processor's register for it, of the calling thread.
#if defined(__SSE2__)
constexpr std::uint32_t kFlags = 0x3f;  // what happened, which is no setting
std::uint32_t arithmetic_now() { return _mm_getcsr() & ~kFlags; }
void set_arithmetic(std::uint32_t setting) { _mm_setcsr(setting | (_mm_getcsr() & kFlags)); }
#else
std::uint32_t arithmetic_now() { return 0; }
void set_arithmetic(std::uint32_t /*setting*/) {}
#endif

// Settings of the process are set for the call and back: who changed them in between did so for
// ops to come.
class Restored {
 public:
  explicit Restored(const OpCall::Surroundings& wanted)
      : before_(OpCall::Surroundings::now()), wanted_(wanted), grad_(wanted.grad) {
    if (before_ != wanted_) apply(before_, wanted_);
  }
  ~Restored() {
    if (before_ != wanted_) apply(wanted_, before_);
  }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  static void apply(const OpCall::Surroundings& from, const OpCall::Surroundings& to) {
    if (from.threads != to.threads) at::set_num_threads(to.threads);
    if (from.mkldnn != to.mkldnn) at::globalContext().setUserEnabledMkldnn(to.mkldnn);
    if (from.deterministic != to.deterministic || from.warns_only != to.warns_only) {
      at::globalContext().setDeterministicAlgorithms(to.deterministic, to.warns_only);
    }
    if (from.arithmetic != to.arithmetic) set_arithmetic(to.arithmetic);
    if (from.type != to.type) c10::set_default_dtype(to.type);
  }

  OpCall::Surroundings before_;
  OpCall::Surroundings wanted_;
  c10::AutoGradMode grad_;
};

}  // namespace

OpCall::Surroundings OpCall::Surroundings::now() {
  return {.threads = at::get_num_threads(),
          .grad = c10::GradMode::is_enabled(),
          .mkldnn = at::globalContext().userEnabledMkldnn(),
          .deterministic = at::globalContext().deterministicAlgorithms(),
          .warns_only = at::globalContext().deterministicAlgorithmsWarnOnly(),
          .arithmetic = arithmetic_now(),
          .type = c10::get_default_dtype()};
}

OpCall::OpCall(c10::OperatorHandle op, const char* name)
    : op_(std::move(op)), name_(name), surroundings_(Surroundings::now()) {}

/// A call while it is looked at.
struct OpCall::Draft {
  const Engines& engines;
  OpCall& call;
  std::vector<StorageRecord*>& sources;

  bool tensor(const at::Tensor& tensor, std::size_t argument, std::optional<std::size_t> at) {
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    if (!is_plain(impl)) return false;
    c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
    Tensor described{.argument = argument,
                     .at = at,
                     .source = kSmall,
                     .sizes = impl.sizes().vec(),
                     .strides = impl.strides().vec(),
                     .offset = impl.storage_offset(),
                     .type = impl.dtype(),
                     .device = impl.device(),
                     .bytes = storage.nbytes(),
                     .small = {},
                     .number = impl.is_wrapped_number()};
    if (!locate(storage, described)) return false;
    call.tensors_.push_back(std::move(described));
    return true;
  }

  bool locate(c10::StorageImpl& storage, Tensor& described) {
    if (described.number) {
      described.small = std::make_shared<const SmallCopy>(storage);
      return true;
    }
    if (const Managed found = engines.find(storage)) {
      const auto known = std::ranges::find(sources, found.record);
      described.source = static_cast<std::size_t>(known - sources.begin());
      if (known == sources.end()) sources.push_back(found.record);
      return true;
    }
    // A processor's number beside a card's tensors is copied as well.
    if (described.bytes > most_copied(storage.device())) return false;
    const bool ours = storage._mutable_data_ptr_no_checks().get_deleter() ==
                      c10::GetAllocator(storage.device_type())->raw_deleter();
    described.small = copy_of_small(storage, ours || storage.device().is_cuda());
    return true;
  }

  bool value(const c10::IValue& value, std::size_t argument) {
    if (value.isTensor()) {
      call.values_.emplace_back();
      return !value.toTensor().defined() || tensor(value.toTensor(), argument, std::nullopt);
    }
    if (value.isTensorList()) {
      call.values_.emplace_back();
      const auto elements = value.toListRef();
      call.list_sizes_[argument] = elements.size();
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (!elements[i].toTensor().defined() || !tensor(elements[i].toTensor(), argument, i))
          return false;
      }
      return !elements.empty();
    }
    const bool number = value.isNone() || value.isScalar() || value.isString() ||
                        value.isDevice() || value.isIntList() || value.isDoubleList() ||
                        value.isBoolList();
    call.values_.push_back(value);
    return number;
  }
};

OpCall::Begun OpCall::of(const Engines& engines, const OpFacts& facts,
                         const at::RecordFunction& function, StorageRecord* overwritten) {
  const auto name = function.operator_name();
  auto op = name ? c10::Dispatcher::singleton().findOp(*name) : std::nullopt;
  if (!op) return {};
  Begun begun{.call = std::shared_ptr<OpCall>(new OpCall(*std::move(op), facts.name)),
              .sources = {}};
  if (overwritten != nullptr) begun.sources.push_back(overwritten);
  Draft draft{.engines = engines, .call = *begun.call, .sources = begun.sources};
  const auto inputs = arguments_of(facts, function);
  begun.call->list_sizes_.resize(inputs.size());
  const RunningStatistics& statistics = facts.statistics;
  const bool trains = statistics.arguments != 0 && inputs[statistics.training].toBool();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (trains && ((statistics.arguments >> i) & 1U) != 0) {
      begun.call->values_.emplace_back();
    } else if (!draft.value(inputs[i], i)) {
      return {};
    }
  }
  return begun;
}

void OpCall::end(c10::ArrayRef<const c10::IValue> results, TimeNs cost) {
  set_cost(cost);
  for (const c10::IValue& result : results) {
    const at::Tensor& tensor = result.toTensor();
    const bool plain = tensor.defined() && is_plain(*tensor.unsafeGetTensorImpl());
    output_bytes_.push_back(plain ? tensor.storage().nbytes() : 0);
  }
}

at::Tensor OpCall::over(const Tensor& tensor, std::span<std::byte* const> sources) const {
  c10::intrusive_ptr<c10::StorageImpl> storage;
  if (tensor.source == kSmall) {
    storage = tensor.small->storage();
  } else {
    storage = c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), tensor.bytes,
        c10::DataPtr(sources[tensor.source], tensor.device), nullptr, false);
  }
  at::Tensor made = at::detail::make_tensor_base<c10::TensorImpl>(
      c10::Storage(std::move(storage)), plain_keys(tensor.device), tensor.type);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes, tensor.strides, tensor.offset);
  if (tensor.number) made.unsafeGetTensorImpl()->set_wrapped_number(true);
  return made;
}

::torch::jit::Stack OpCall::arguments(std::span<std::byte* const> sources) const {
  ::torch::jit::Stack stack = values_;
  for (std::size_t i = 0; i < stack.size(); ++i) {
    if (list_sizes_[i] == 0) continue;
    c10::List<at::Tensor> list;
    list.resize(list_sizes_[i]);
    stack[i] = list;
  }
  for (const Tensor& tensor : tensors_) {
    if (tensor.at) {
      stack[tensor.argument].toTensorList().set(*tensor.at, over(tensor, sources));
    } else {
      stack[tensor.argument] = over(tensor, sources);
    }
  }
  return stack;
}

void OpCall::run(std::span<std::byte* const> sources, std::uint32_t output, std::byte* to) const {
  const BelowAll below;
  const Restored settings(surroundings_);
  ::torch::jit::Stack stack = arguments(sources);
  const std::size_t bytes = output_bytes_[output];
  {
    const Landing landing(overwritten() == kNone ? to : nullptr, bytes);
    op_.callBoxed(stack);
  }
  const at::Tensor& result = stack[output].toTensor();
  const c10::Storage& made = result.storage();
  if (made.data() == to) return;
  SPILLWAY_CHECK(made.nbytes() == bytes, "an op that is run again makes as many bytes");
  const auto raw = at::TensorOptions().dtype(at::kByte).device(result.device());
  const auto size = static_cast<std::int64_t>(bytes);
  at::from_blob(to, {size}, raw)
      .copy_(at::from_blob(const_cast<void*>(made.data()), {size}, raw));  // NOLINT: it is read
}

}  // namespace spillway::torch
