// SPDX-License-Identifier: Apache-2.0
#include "values/op_shape.hpp"

namespace spillway::standin {

namespace {

bool mentions(const c10::Argument& argument, const char* type) {
  return argument.type()->str().find(type) != std::string::npos;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

}  // namespace

OpShape::OpShape(const c10::OperatorHandle& op) : name(full_name(op.operator_name())) {
  const auto& arguments = op.schema().arguments();
  for (const c10::Argument& argument : arguments) {
    is_out.push_back(argument.is_out());
    is_generator.push_back(mentions(argument, "Generator"));
    has_outs |= argument.is_out();
  }
  for (const c10::Argument& result : op.schema().returns()) {
    is_argument.emplace_back();
    if (result.alias_info() == nullptr) {
      (mentions(result, "Tensor") ? makes_tensors : makes_numbers) = true;
      continue;
    }
    for (std::size_t i = 0; i < arguments.size() && !is_argument.back(); ++i) {
      const c10::AliasInfo* const alias = arguments[i].alias_info();
      if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) {
        is_argument.back() = i;
      }
    }
  }
}

}  // namespace spillway::standin
