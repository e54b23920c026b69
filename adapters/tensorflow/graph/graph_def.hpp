// SPDX-License-Identifier: Apache-2.0
// A graph of TensorFlow as the framework hands it over: nodes, their inputs and devices.
//
// The rest (attributes, versions, the function library) is kept as bytes and
// written back unchanged, so that fields of later versions survive. Inputs are text, as in the
// message: `name`, `name:port`, or `^name` for an edge that only orders.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::tf {

struct Node {
  std::string name;
  std::string op;
  std::string device;
  std::vector<std::string> inputs;  ///< data first, then control
  std::string rest;                 ///< every other field, as bytes

  /// The value of an attribute as bytes (a message AttrValue), if the node has it. A view into
  /// `rest`.
  [[nodiscard]] std::optional<std::string_view> attribute(std::string_view name) const;
  void remove_attribute(std::string_view name);
  void add_type_attribute(std::string_view name, std::uint64_t type);
  void add_int_attribute(std::string_view name, std::uint64_t value);
  void add_text_attribute(std::string_view name, std::string_view value);
};

struct Graph {
  std::vector<Node> nodes;
  std::string rest;

  /// Throws MalformedMessage.
  static Graph parse(std::string_view message);
  [[nodiscard]] std::string serialize() const;
};

/// The names of its nodes. Throws MalformedMessage.
std::vector<std::string> node_names(std::string_view message);

/// An input's text taken apart.
struct InputName {
  std::string_view node;
  std::uint32_t port = 0;
  bool control = false;
};
InputName parse_input(std::string_view input);
std::string to_input(std::string_view node, std::uint32_t port);

// Readers of AttrValue.
std::optional<std::uint64_t> type_of(std::string_view attribute);
std::optional<std::int64_t> int_of(std::string_view attribute);
std::optional<std::string_view> text_of(std::string_view attribute);
std::optional<bool> bool_of(std::string_view attribute);
std::vector<std::uint64_t> types_of(std::string_view attribute);

}  // namespace spillway::tf
