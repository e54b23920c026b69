// SPDX-License-Identifier: Apache-2.0
#include "graph_def.hpp"

#include <charconv>
#include <utility>

#include "wire.hpp"

namespace spillway::tf {
namespace {

// Field numbers of graph.proto, node_def.proto and attr_value.proto.
constexpr std::uint32_t kGraphNode = 1;
constexpr std::uint32_t kNodeName = 1;
constexpr std::uint32_t kNodeOp = 2;
constexpr std::uint32_t kNodeInput = 3;
constexpr std::uint32_t kNodeDevice = 4;
constexpr std::uint32_t kNodeAttribute = 5;
constexpr std::uint32_t kEntryKey = 1;
constexpr std::uint32_t kEntryValue = 2;
constexpr std::uint32_t kValueList = 1;
constexpr std::uint32_t kValueText = 2;
constexpr std::uint32_t kValueInt = 3;
constexpr std::uint32_t kValueBool = 5;
constexpr std::uint32_t kValueType = 6;
constexpr std::uint32_t kListTypes = 6;

Node parse_node(std::string_view message) {
  Node node;
  FieldReader reader(message);
  Field field;
  while (reader.next(field)) {
    if (field.number == kNodeName) {
      node.name = field.bytes;
    } else if (field.number == kNodeOp) {
      node.op = field.bytes;
    } else if (field.number == kNodeInput) {
      node.inputs.emplace_back(field.bytes);
    } else if (field.number == kNodeDevice) {
      node.device = field.bytes;
    } else {
      node.rest.append(field.whole);
    }
  }
  if (node.name.empty() || node.op.empty()) throw MalformedMessage("a node has no name or no op");
  return node;
}

std::string serialize_node(const Node& node) {
  std::string message;
  append_bytes_field(message, kNodeName, node.name);
  append_bytes_field(message, kNodeOp, node.op);
  for (const std::string& input : node.inputs) append_bytes_field(message, kNodeInput, input);
  if (!node.device.empty()) append_bytes_field(message, kNodeDevice, node.device);
  return message + node.rest;
}

void add_attribute(Node& node, std::string_view name, std::string_view value) {
  std::string entry;
  append_bytes_field(entry, kEntryKey, name);
  append_bytes_field(entry, kEntryValue, value);
  append_bytes_field(node.rest, kNodeAttribute, entry);
}

std::optional<Field> field_of(std::string_view attribute, std::uint32_t number) {
  FieldReader reader(attribute);
  Field field;
  while (reader.next(field)) {
    if (field.number == number) return field;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> Node::attribute(std::string_view wanted) const {
  FieldReader reader(rest);
  Field field;
  while (reader.next(field)) {
    if (field.number != kNodeAttribute) continue;
    const auto key = field_of(field.bytes, kEntryKey);
    if (!key || key->bytes != wanted) continue;
    const auto value = field_of(field.bytes, kEntryValue);
    return value ? value->bytes : std::string_view();
  }
  return std::nullopt;
}

void Node::remove_attribute(std::string_view unwanted) {
  std::string kept;
  FieldReader reader(rest);
  Field field;
  while (reader.next(field)) {
    const auto key =
        field.number == kNodeAttribute ? field_of(field.bytes, kEntryKey) : std::optional<Field>();
    if (!key || key->bytes != unwanted) kept.append(field.whole);
  }
  rest = std::move(kept);
}

void Node::add_type_attribute(std::string_view attribute, std::uint64_t type) {
  std::string value;
  append_varint_field(value, kValueType, type);
  add_attribute(*this, attribute, value);
}

void Node::add_int_attribute(std::string_view attribute, std::uint64_t number) {
  std::string value;
  append_varint_field(value, kValueInt, number);
  add_attribute(*this, attribute, value);
}

void Node::add_text_attribute(std::string_view attribute, std::string_view text) {
  std::string value;
  append_bytes_field(value, kValueText, text);
  add_attribute(*this, attribute, value);
}

Graph Graph::parse(std::string_view message) {
  Graph graph;
  FieldReader reader(message);
  Field field;
  while (reader.next(field)) {
    if (field.number == kGraphNode) {
      graph.nodes.push_back(parse_node(field.bytes));
    } else {
      graph.rest.append(field.whole);
    }
  }
  return graph;
}

std::string Graph::serialize() const {
  std::string message;
  for (const Node& node : nodes) append_bytes_field(message, kGraphNode, serialize_node(node));
  return message + rest;
}

std::vector<std::string> node_names(std::string_view message) {
  std::vector<std::string> names;
  for (Node& node : Graph::parse(message).nodes) names.push_back(std::move(node.name));
  return names;
}

InputName parse_input(std::string_view input) {
  InputName name;
  if (!input.empty() && input.front() == '^') {
    name.control = true;
    input.remove_prefix(1);
  }
  const auto colon = input.rfind(':');
  name.node = input.substr(0, colon);
  if (colon == std::string_view::npos) return name;
  const char* const end = input.data() + input.size();
  const auto [stop, error] = std::from_chars(input.data() + colon + 1, end, name.port);
  if (error != std::errc{} || stop != end) throw MalformedMessage("an input has no port number");
  return name;
}

std::string to_input(std::string_view node, std::uint32_t port) {
  std::string input(node);
  if (port != 0) input += ":" + std::to_string(port);
  return input;
}

std::optional<std::uint64_t> type_of(std::string_view attribute) {
  const auto field = field_of(attribute, kValueType);
  return field ? std::optional(field->value) : std::nullopt;
}

std::optional<std::int64_t> int_of(std::string_view attribute) {
  const auto field = field_of(attribute, kValueInt);
  return field ? std::optional(static_cast<std::int64_t>(field->value)) : std::nullopt;
}

std::optional<std::string_view> text_of(std::string_view attribute) {
  const auto field = field_of(attribute, kValueText);
  return field ? std::optional(field->bytes) : std::nullopt;
}

std::optional<bool> bool_of(std::string_view attribute) {
  const auto field = field_of(attribute, kValueBool);
  return field ? std::optional(field->value != 0) : std::nullopt;
}

std::vector<std::uint64_t> types_of(std::string_view attribute) {
  std::vector<std::uint64_t> types;
  const auto list = field_of(attribute, kValueList);
  if (!list) return types;
  FieldReader reader(list->bytes);
  Field field;
  while (reader.next(field)) {
    if (field.number == kListTypes) read_repeated(field, types);
  }
  return types;
}

}  // namespace spillway::tf
