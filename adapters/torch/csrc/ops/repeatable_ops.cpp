// SPDX-License-Identifier: Apache-2.0
#include "ops/repeatable_ops.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace spillway::torch {

namespace {

// Besides what torch tags as pointwise. Sums of one output are in one order each, so that with as
// many threads the bits are the same (tests/oracle runs each). No copies: code of extensions that
// is no operator takes one to write it through its address, which nobody sees. No matrix products:
// their bits depend on settings of the process that are others' to set (TensorFloat-32, reduced
// sums).
constexpr std::array<std::string_view, 30> kOthers{
    "_fused_rms_norm",
    "_log_softmax",
    "_safe_softmax",
    "_softmax",
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "avg_pool2d",
    "avg_pool3d",
    "cat",
    "constant_pad_nd",
    "embedding",
    "flip",
    "gather",
    "index_select",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "repeat",
    "replication_pad2d",
    "replication_pad3d",
    "roll",
    "stack",
    "tril",
    "triu",
    "upsample_nearest2d",
};

// (input, weight, bias, running_mean, running_var, training, ...)
constexpr std::string_view kBatchNorm = "native_batch_norm";
constexpr RunningStatistics kOfBatchNorm{.arguments = 0b11000, .training = 5};

constexpr std::string_view kNamespace = "aten::";

std::string_view base_of(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.starts_with(kNamespace) ? name.substr(kNamespace.size()) : std::string_view{};
}

bool aliases_nothing(const c10::Argument& argument) { return argument.alias_info() == nullptr; }

bool returns_tensors(const c10::FunctionSchema& schema) {
  return !schema.returns().empty() && std::ranges::all_of(schema.returns(), [](const auto& result) {
    return result.type()->kind() == c10::TypeKind::TensorType;
  });
}

bool overwrites_first_alone(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return schema.name().ends_with('_') && schema.returns().size() == 1 && !arguments.empty() &&
         arguments.front().alias_info() != nullptr && arguments.front().alias_info()->isWrite() &&
         std::all_of(arguments.begin() + 1, arguments.end(), aliases_nothing);
}

}  // namespace

// An operator that torch does not know as its own may do anything.
bool has_kernel(const c10::FunctionSchema& schema) {
  using c10::DispatchKey;
  const auto op = c10::Dispatcher::singleton().findSchema(schema.operator_name());
  return !op || base_of(schema).empty() ||
         !op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
         op->hasKernelForDispatchKey(DispatchKey::CPU) ||
         op->hasKernelForDispatchKey(DispatchKey::CUDA) ||
         op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
}

RunningStatistics running_statistics(const c10::FunctionSchema& schema) {
  return base_of(schema) == kBatchNorm ? kOfBatchNorm : RunningStatistics{};
}

Repeatable repeatable(const c10::FunctionSchema& schema) {
  const std::string_view base = base_of(schema);
  const auto op = c10::Dispatcher::singleton().findSchema(schema.operator_name());
  if (base.empty() || !op || op->hasTag(at::Tag::nondeterministic_seeded) || !has_kernel(schema) ||
      !returns_tensors(schema)) {
    return Repeatable::kNo;
  }
  const bool pointwise = op->hasTag(at::Tag::pointwise);
  if (!pointwise && std::ranges::find(kOthers, base) == kOthers.end()) return Repeatable::kNo;
  if (pointwise && overwrites_first_alone(schema)) return Repeatable::kOverwrites;
  const bool makes = std::ranges::all_of(schema.arguments(), aliases_nothing) &&
                     std::ranges::all_of(schema.returns(), aliases_nothing);
  return makes ? Repeatable::kMakes : Repeatable::kNo;
}

}  // namespace spillway::torch
