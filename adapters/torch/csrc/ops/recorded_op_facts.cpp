// SPDX-License-Identifier: Apache-2.0
#include "ops/recorded_op_facts.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace spillway::torch {

namespace {

struct FlopEntry {
  std::string_view op;  // without namespace and overload
  FlopRule rule;
};

// The operators that torch.utils.flop_counter has formulas for, which a test compares.
constexpr std::array kFlopRules{
    FlopEntry{"mm", FlopRule::kMatmul},
    FlopEntry{"bmm", FlopRule::kMatmul},
    FlopEntry{"_scaled_mm", FlopRule::kMatmul},
    FlopEntry{"addmm", FlopRule::kAddedMatmul},
    FlopEntry{"_addmm_activation", FlopRule::kAddedMatmul},
    FlopEntry{"baddbmm", FlopRule::kAddedMatmul},
    FlopEntry{"convolution", FlopRule::kConvolution},
    FlopEntry{"_convolution", FlopRule::kConvolution},
    FlopEntry{"convolution_overrideable", FlopRule::kConvolution},
    FlopEntry{"convolution_backward", FlopRule::kConvolutionBackward},
    FlopEntry{"convolution_backward_overrideable", FlopRule::kConvolutionBackward},
    FlopEntry{"_scaled_dot_product_flash_attention", FlopRule::kAttention},
    FlopEntry{"_scaled_dot_product_flash_attention_for_cpu", FlopRule::kAttention},
    FlopEntry{"_scaled_dot_product_efficient_attention", FlopRule::kAttention},
    FlopEntry{"_scaled_dot_product_cudnn_attention", FlopRule::kAttention},
    FlopEntry{"_scaled_dot_product_flash_attention_backward", FlopRule::kAttentionBackward},
    FlopEntry{"_scaled_dot_product_flash_attention_for_cpu_backward", FlopRule::kAttentionBackward},
    FlopEntry{"_scaled_dot_product_efficient_attention_backward", FlopRule::kAttentionBackward},
    FlopEntry{"_scaled_dot_product_cudnn_attention_backward", FlopRule::kAttentionBackward},
};

constexpr std::array<std::string_view, 10> kOverwriting{
    "zero_",   "fill_",      "copy_",        "normal_",    "uniform_",
    "random_", "bernoulli_", "exponential_", "geometric_", "log_normal_"};
constexpr std::array<std::string_view, 4> kGathering{"embedding", "index_select", "gather",
                                                     "index"};
constexpr std::array<std::string_view, 5> kUninitialized{"empty", "empty_like", "empty_strided",
                                                         "new_empty", "new_empty_strided"};
// One kernel on devices, loops of small ops on meta, where no such kernel exists.
constexpr std::array<std::string_view, 4> kFused{"lstm", "gru", "rnn_tanh", "rnn_relu"};

template <class List>
bool lists(const List& list, std::string_view op) {
  return std::ranges::find(list, op) != list.end();
}

FlopRule rule_of(std::string_view op) {
  const auto* const entry = std::ranges::find(kFlopRules, op, &FlopEntry::op);
  return entry == kFlopRules.end() ? FlopRule::kNone : entry->rule;
}

// Ops without a kernel of their own only call others. Asked of the CPU's kernels, not of meta's,
// which are written in Python for some ops that no device runs as parts.
bool is_leaf(const c10::OperatorHandle& handle) {
  using c10::DispatchKey;
  return !handle.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         handle.hasKernelForDispatchKey(DispatchKey::CPU) ||
         handle.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
}

std::uint64_t output_arguments(const c10::FunctionSchema& schema) {
  std::uint64_t result = 0;
  const auto& arguments = schema.arguments();
  for (std::size_t i = 0; i < arguments.size() && i < 64; ++i) {
    if (arguments[i].is_out()) result |= std::uint64_t{1} << i;
  }
  return result;
}

// Attention drops out where its argument says so, which no tag tells.
int dropout_argument(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  const auto found = std::ranges::find_if(arguments, [](const c10::Argument& argument) {
    return argument.name() == "dropout_p" || argument.name() == "dropout";
  });
  return found == arguments.end() ? -1 : static_cast<int>(found - arguments.begin());
}

const RecordedOpFacts* make_facts(const OpFacts& op, const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  std::string_view base = name.name;
  if (const auto colons = base.rfind("::"); colons != std::string_view::npos) {
    base.remove_prefix(colons + 2);
  }
  return new RecordedOpFacts{.op = &op,
                             .leaf = !op.transparent && (!handle || is_leaf(*handle)),
                             .fused = lists(kFused, base),
                             .seeded = handle && handle->hasTag(at::Tag::nondeterministic_seeded),
                             .overwrites = lists(kOverwriting, base),
                             .gathers = lists(kGathering, base),
                             .uninitialized = lists(kUninitialized, base),
                             .outputs = handle ? output_arguments(handle->schema()) : 0,
                             .dropout = handle ? dropout_argument(handle->schema()) : -1,
                             .flop = rule_of(base),
                             .adds_bias = base == "linear"};
}

}  // namespace

const RecordedOpFacts* recorded_facts_of(const at::RecordFunction& function) {
  const OpFacts* op = facts_of(function);
  if (op == nullptr) return nullptr;
  static std::mutex mutex;
  static auto* known = new std::unordered_map<const OpFacts*, const RecordedOpFacts*>();
  const std::lock_guard lock(mutex);
  const RecordedOpFacts*& entry = (*known)[op];
  if (entry == nullptr) entry = make_facts(*op, *function.operator_name());
  return entry;
}

bool RecordedOpFacts::draws(c10::ArrayRef<const c10::IValue> inputs) const {
  if (seeded) return true;
  if (dropout < 0 || static_cast<std::size_t>(dropout) >= inputs.size()) return false;
  const c10::IValue& probability = inputs[static_cast<std::size_t>(dropout)];
  return probability.isDouble() && probability.toDouble() > 0;
}

}  // namespace spillway::torch
