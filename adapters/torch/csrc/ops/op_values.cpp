// SPDX-License-Identifier: Apache-2.0
#include "ops/op_values.hpp"

#include <ATen/core/class_type.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace spillway::torch {

namespace {

constexpr std::string_view kClasses = "__torch__.torch.classes.";
constexpr std::array<std::string_view, 12> kClassesOfTorch{
    "c10d.",      "cuda.", "dist_rpc.", "metal.",  "mkldnn.",  "profiler.",
    "quantized.", "rnn.",  "sparse.",   "vulkan.", "xnnpack.", "_nnapi."};

std::string class_name(const c10::ivalue::Object& object) {
  const std::optional<c10::QualifiedName> name = object.type()->name();
  return name ? name->qualifiedName() : "a class without a name";
}

bool is_of_torch(std::string_view name) {
  if (!name.starts_with(kClasses)) return false;
  name.remove_prefix(kClasses.size());
  return std::ranges::any_of(kClassesOfTorch,
                             [name](std::string_view prefix) { return name.starts_with(prefix); });
}

bool holds_numbers_alone(const c10::Type& element) {
  switch (element.kind()) {
    case c10::TypeKind::IntType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::BoolType:
    case c10::TypeKind::ComplexType:
    case c10::TypeKind::StringType:
    case c10::TypeKind::SymIntType:
      return true;
    default:
      return false;
  }
}

// Of TorchScript's types some refer to themselves (a list with links), so nothing here recurses.
class Walk {
 public:
  explicit Walk(ValueVisitor& visitor) : visitor_(visitor) {}

  void all_of(const c10::IValue& first) {
    one(first);  // not by way of the list: most values hold none, and need no memory
    while (!left_.empty()) {
      const c10::IValue& value = *left_.back();
      left_.pop_back();
      one(value);
    }
  }

 private:
  void one(const c10::IValue& value) {
    if (value.isTensor()) {
      visitor_.tensor(value.toTensor());
    } else if (value.isStorage()) {
      visitor_.storage(*value.toStorage().unsafeGetStorageImpl());
    } else if (value.isList()) {
      if (holds_numbers_alone(*value.toList().elementType())) return;
      in_order(value.toListRef());
    } else if (value.isTuple()) {
      const auto& elements = value.toTupleRef().elements();
      in_order(c10::ArrayRef<c10::IValue>(elements.begin(), elements.end()));
    } else if (value.isGenericDict()) {
      const c10::impl::GenericDict dict = value.toGenericDict();
      for (const auto& entry : dict) {
        left_.push_back(&entry.key());
        left_.push_back(&entry.value());
      }
    } else if (value.isObject()) {
      object(value);
    } else {
      other(value);
    }
  }

  void in_order(c10::ArrayRef<c10::IValue> values) {
    for (std::size_t i = values.size(); i-- != 0;) left_.push_back(&values[i]);
  }

  void object(const c10::IValue& value) {
    const c10::ivalue::Object& object = value.toObjectRef();
    if (value.isCustomClass()) {
      const std::string name = class_name(object);
      if (!is_of_torch(name)) visitor_.closed(name);
      return;
    }
    if (!entered_.insert(&object).second) return;
    in_order(object.slots());
  }

  void other(const c10::IValue& value) {
    if (value.isFuture()) {
      const auto future = value.toFuture();
      if (future->hasValue()) {
        left_.push_back(&future->constValue());
      } else if (!future->completed()) {
        visitor_.closed("a future without a value");
      }
    } else if (value.isPyObject()) {
      visitor_.closed("an object of Python");
    } else if (value.isRRef() || value.isAwait() || value.isCapsule() || value.isBlob()) {
      visitor_.closed(value.tagKind());
    }
  }

  ValueVisitor& visitor_;
  std::vector<const c10::IValue*> left_;
  std::unordered_set<const c10::ivalue::Object*> entered_;
};

}  // namespace

void visit_value(const c10::IValue& value, ValueVisitor& visitor) {
  if (value.isTensor()) {
    visitor.tensor(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isTensor()) visitor.tensor(element.toTensor());
    }
  } else if (value.isPtrType() && !value.isString()) {
    Walk(visitor).all_of(value);
  }
}

}  // namespace spillway::torch
