// SPDX-License-Identifier: Apache-2.0
#include "partial_sums.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "op_names.hpp"
#include "op_types.hpp"
#include "swap_pairs.hpp"

namespace spillway::tf {
namespace {

// Of the kernel: so many inputs are added in one expression, and up to one more in its first.
constexpr std::size_t kWidth = 8;

class Sum {
 public:
  Sum(const Node& node, DataType type) : node_(node), type_(type) {}

  /// The nodes that take its place; the last is the node itself with other inputs.
  std::vector<Node> apart() {
    const std::size_t terms = count_terms(node_);
    std::size_t next = terms % kWidth;
    if (next < 2) next += kWidth;
    std::string sum = add(inputs(0, next));
    for (; next + kWidth < terms; next += kWidth) sum = add({sum, add_eight(next)});
    end(sum, add_eight(next));
    return std::move(nodes_);
  }

  static std::size_t count_terms(const Node& node) {
    return static_cast<std::size_t>(std::ranges::count_if(
        node.inputs, [](const std::string& input) { return !parse_input(input).control; }));
  }

 private:
  [[nodiscard]] std::vector<std::string> inputs(std::size_t from, std::size_t to) const {
    return {node_.inputs.begin() + static_cast<std::ptrdiff_t>(from),
            node_.inputs.begin() + static_cast<std::ptrdiff_t>(to)};
  }

  std::string add_eight(std::size_t from) { return add(inputs(from, from + kWidth)); }

  std::string add(std::vector<std::string> terms) {
    Node part{
        .name = std::string(kPrefix) + "sum_" + std::to_string(nodes_.size()) + "/" + node_.name,
        .op = node_.op,
        .device = node_.device,
        .inputs = {},
        .rest = {}};
    part.add_type_attribute("T", type_);
    part.add_int_attribute("N", terms.size());
    part.inputs = std::move(terms);
    nodes_.push_back(std::move(part));
    return nodes_.back().name;
  }

  void end(const std::string& sum, const std::string& last_eight) {
    Node last = node_;
    last.remove_attribute("N");
    last.add_int_attribute("N", 2);
    std::erase_if(last.inputs,
                  [](const std::string& input) { return !parse_input(input).control; });
    last.inputs.insert(last.inputs.begin(), {sum, last_eight});
    nodes_.push_back(std::move(last));
  }

  const Node& node_;
  const DataType type_;
  std::vector<Node> nodes_;
};

// Lists of dynamic loops (variants) are added by other rules, and a card may be.
std::optional<DataType> type_of_long_sum(const Node& node) {
  if (node.op != "AddN" || !is_on_processor(node) || Sum::count_terms(node) <= kWidth + 1) {
    return std::nullopt;
  }
  const auto attribute = node.attribute("T");
  const auto type = attribute ? type_of(*attribute) : std::nullopt;
  return type && is_plain(*type) ? type : std::nullopt;
}

}  // namespace

void take_sums_apart(Graph& graph) {
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes.size());
  for (Node& node : graph.nodes) {
    if (const auto type = type_of_long_sum(node)) {
      for (Node& part : Sum(node, *type).apart()) nodes.push_back(std::move(part));
    } else {
      nodes.push_back(std::move(node));
    }
  }
  graph.nodes = std::move(nodes);
}

}  // namespace spillway::tf
