// SPDX-License-Identifier: Apache-2.0
#include "op_types.hpp"

#include <optional>

#include "wire.hpp"

namespace spillway::tf {
namespace {

// Field numbers of op_def.proto.
constexpr std::uint32_t kOpOutput = 3;
constexpr std::uint32_t kOpAttribute = 4;
constexpr std::uint32_t kArgType = 3;
constexpr std::uint32_t kArgTypeAttribute = 4;
constexpr std::uint32_t kArgNumberAttribute = 5;
constexpr std::uint32_t kArgTypeListAttribute = 6;
constexpr std::uint32_t kArgIsReference = 16;
constexpr std::uint32_t kAttributeName = 1;
constexpr std::uint32_t kAttributeDefault = 3;

constexpr DataType kReference = 100;  // added to the type that is referred to
constexpr std::int64_t kMostOutputs = 1 << 16;

struct Output {
  DataType type = 0;
  std::string_view type_attribute;
  std::string_view number_attribute;
  std::string_view list_attribute;
  bool reference = false;
};

Output parse_output(std::string_view message) {
  Output output;
  FieldReader reader(message);
  Field field;
  while (reader.next(field)) {
    if (field.number == kArgType) output.type = field.value;
    if (field.number == kArgTypeAttribute) output.type_attribute = field.bytes;
    if (field.number == kArgNumberAttribute) output.number_attribute = field.bytes;
    if (field.number == kArgTypeListAttribute) output.list_attribute = field.bytes;
    if (field.number == kArgIsReference) output.reference = field.value != 0;
  }
  return output;
}

std::optional<std::string_view> default_of(std::string_view description, std::string_view name) {
  FieldReader reader(description);
  Field field;
  while (reader.next(field)) {
    if (field.number != kOpAttribute) continue;
    FieldReader attribute(field.bytes);
    Field part;
    bool is_it = false;
    std::optional<std::string_view> value;
    while (attribute.next(part)) {
      if (part.number == kAttributeName) is_it = part.bytes == name;
      if (part.number == kAttributeDefault) value = part.bytes;
    }
    if (is_it) return value;
  }
  return std::nullopt;
}

// The attribute's value in the node, else the op's default.
std::optional<std::string_view> value_of(const Node& node, std::string_view description,
                                         std::string_view name) {
  const auto own = node.attribute(name);
  return own ? own : default_of(description, name);
}

// False where the description asks for what the node does not have.
bool append_types(const Output& output, const Node& node, std::string_view description,
                  std::vector<DataType>& types) {
  if (!output.list_attribute.empty()) {
    const auto list = value_of(node, description, output.list_attribute);
    if (!list) return false;
    for (const DataType type : types_of(*list)) types.push_back(type);
    return true;
  }
  DataType type = output.type;
  if (!output.type_attribute.empty()) {
    const auto attribute = value_of(node, description, output.type_attribute);
    const auto value = attribute ? type_of(*attribute) : std::nullopt;
    if (!value) return false;
    type = *value;
  }
  if (output.reference) type += kReference;
  std::int64_t count = 1;
  if (!output.number_attribute.empty()) {
    const auto attribute = value_of(node, description, output.number_attribute);
    const auto value = attribute ? int_of(*attribute) : std::nullopt;
    if (!value || *value < 0 || *value > kMostOutputs) return false;
    count = *value;
  }
  types.insert(types.end(), static_cast<std::size_t>(count), type);
  return true;
}

}  // namespace

bool is_plain(DataType type) {
  // float double int32 uint8 int16 int8, complex64 int64 bool, bfloat16, uint16 complex128 half,
  // uint32 uint64.
  switch (type) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 8:
    case 9:
    case 10:
    case 14:
    case 17:
    case 18:
    case 19:
    case 22:
    case 23:
      return true;
    default:
      return false;
  }
}

std::vector<DataType> output_types(const Node& node, std::string_view description) {
  std::vector<DataType> types;
  FieldReader reader(description);
  Field field;
  while (reader.next(field)) {
    if (field.number != kOpOutput) continue;
    if (!append_types(parse_output(field.bytes), node, description, types)) return {};
  }
  return types;
}

}  // namespace spillway::tf
