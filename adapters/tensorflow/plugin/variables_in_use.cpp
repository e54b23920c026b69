// SPDX-License-Identifier: Apache-2.0
#include "variables_in_use.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "op_names.hpp"
#include "session.hpp"
#include "swap_pairs.hpp"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "variable_buffer.hpp"

namespace spillway::tf {
namespace {

using runtime::Access;
using std::string_view;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Var;

// More than any optimizer is given for one weight.
constexpr std::size_t kMany = 8;

// Ops that do not look at the bytes of what they are given, and ours, which see to them themselves.
bool hands_on(string_view type) {
  static constexpr std::array<string_view, 8> kOps{"Shape",     "ShapeN",   "Size",      "Rank",
                                                   "ZerosLike", "OnesLike", "IdentityN", "NoOp"};
  return is_alias(type) || is_control_flow(type) || is_one_of(type, kOps) ||
         type.starts_with("Spillway");
}

// Ops on a variable that leave its bytes alone, or whose kernels are ours.
bool leaves_alone(string_view type) {
  static constexpr std::array<string_view, 4> kOps{"AssignVariableOp", "VarIsInitializedOp",
                                                   "VariableShape", "DestroyResourceOp"};
  return is_one_of(type, kOps) || type.starts_with("Spillway");
}

// Of a read: where it copies.
bool works_on_all(string_view type) { return is_update_in_place(type) || type == "ReadVariableOp"; }

std::shared_ptr<VariableMemory> memory_of(Var& variable) {
  const ::tensorflow::tf_shared_lock lock(*variable.mu());
  const VariableBuffer* const buffer = VariableBuffer::in(*variable.tensor());
  return buffer == nullptr ? nullptr : buffer->memory().shared_from_this();
}

std::shared_ptr<VariableMemory> memory_behind(OpKernelContext& context, int input, bool is_read) {
  const auto& handle = context.input(input).scalar<::tensorflow::ResourceHandle>()();
  if (handle.hash_code() != ::tensorflow::TypeIndex::Make<Var>().hash_code()) return nullptr;
  ::tensorflow::core::RefCountPtr<Var> variable;
  // Who works on it tells what is wrong.
  if (!::tensorflow::LookupResource(&context, handle, &variable).ok()) return nullptr;
  if (is_read && !variable->copy_on_read_mode.load()) return nullptr;
  return memory_of(*variable);
}

}  // namespace

void VariablesInUse::find(const OpKernel& kernel, OpKernelContext& context) {
  const string_view type = kernel.type_string_view();
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (!context.has_input(i) || context.input_is_ref(i)) continue;
    if (context.input_dtype(i) != ::tensorflow::DT_RESOURCE) {
      const VariableBuffer* const buffer = VariableBuffer::in(context.input(i));
      if (buffer == nullptr || hands_on(type)) continue;
      add({.memory = buffer->memory().shared_from_this()});
    } else if (!leaves_alone(type) && context.input(i).NumElements() == 1) {
      if (const auto memory = memory_behind(context, i, type == "ReadVariableOp")) {
        add({.memory = memory,
             .part = works_on_all(type) ? Part::kAll : Part::kSome,
             .access = is_update_in_place(type) ? Access::kChange : Access::kRead});
      }
    }
  }
}

VariablesInUse::VariablesInUse(const OpKernel& kernel, OpKernelContext& context) {
  Session& session = *Session::get();
  if (session.variables().none()) return;
  find(kernel, context);
  Bytes all{};
  for (const Used& used : used_) {
    if (used.part == Part::kAll) all += used.memory->bytes();
  }
  const bool fits = used_.size() < kMany || all.count <= session.memory().limit().count / 2;
  for (auto& [memory, part, access] : used_) {
    if (!fits && part == Part::kAll) part = Part::kAllUncounted;
    const std::string reason = session.variables().begin_op(*memory, part, access);
    if (reason_.empty()) reason_ = reason;
  }
}

void VariablesInUse::add(Used use) {
  const auto same = std::ranges::find(used_, use.memory, &Used::memory);
  if (same == used_.end()) {
    used_.push_back(std::move(use));
    return;
  }
  if (use.part == Part::kAll) same->part = Part::kAll;
  if (use.access == Access::kChange) same->access = Access::kChange;
}

VariablesInUse::~VariablesInUse() {
  for (const Used& used : used_) Session::get()->variables().end_op(*used.memory);
}

}  // namespace spillway::tf
