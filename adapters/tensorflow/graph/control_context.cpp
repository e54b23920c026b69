// SPDX-License-Identifier: Apache-2.0
#include "control_context.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace spillway::tf {
namespace {

// The condition under which a node runs: a predicate came out on this side, or, with a side below
// zero, something that has no other name than a node's.
using Condition = std::pair<std::string, std::int64_t>;
using Conditions = std::set<Condition>;

constexpr std::int64_t kUnnamed = -1;

struct Place {
  std::uint32_t frame = 0;
  Conditions conditions;
};

struct Frame {
  std::uint32_t parent = 0;
  Conditions entry;
};

class Walk {
 public:
  Walk(const Graph& graph, const std::vector<std::vector<Edge>>& inputs,
       std::set<std::uint32_t>& uneven)
      : graph_(graph), inputs_(inputs), uneven_(uneven), places_(graph.nodes.size()) {
    frames_.emplace_back();
  }

  // True if a frame turned out to be entered under several conditions: what was found is void then.
  bool visit_all(const std::vector<NodeIndex>& sequence) {
    const std::size_t known = uneven_.size();
    for (const NodeIndex node : sequence) visit(node);
    return uneven_.size() != known;
  }

  [[nodiscard]] ControlContexts result() const {
    std::map<std::tuple<std::uint32_t, Conditions, std::string>, std::uint32_t> numbers;
    ControlContexts contexts;
    for (NodeIndex i = 0; i < places_.size(); ++i) {
      const auto next = static_cast<std::uint32_t>(numbers.size());
      const auto [found, fresh] = numbers.try_emplace(
          {places_[i].frame, places_[i].conditions, graph_.nodes[i].device}, next);
      contexts.context.push_back(found->second);
      contexts.frame.push_back(places_[i].frame);
    }
    return contexts;
  }

 private:
  // Where what comes over the edge is.
  Place behind(const Edge& edge) const {
    const Node& node = graph_.nodes[edge.from];
    Place place = places_[edge.from];
    if (is_exit(node.op)) {
      const std::uint32_t left = place.frame;
      place = {.frame = frames_[left].parent, .conditions = frames_[left].entry};
      if (uneven_.contains(left)) {
        place.conditions.emplace("frame " + std::to_string(left), kUnnamed);
      }
    } else if (is_switch(node.op) && !edge.control && node.inputs.size() > 1) {
      place.conditions.emplace(node.inputs[1], edge.port);
    }
    return place;
  }

  void visit(NodeIndex index) {
    const Node& node = graph_.nodes[index];
    std::vector<Place> data;
    Place place;
    bool first = true;
    for (const Edge& edge : inputs_[index]) {
      if (edge.back) continue;
      const Place from = behind(edge);
      if (!first && from.frame != place.frame) throw Doubt(node.name + " mixes frames");
      first = false;
      place.frame = from.frame;
      if (is_merge(node.op) && !edge.control) {
        data.push_back(from);
      } else {
        place.conditions.insert(from.conditions.begin(), from.conditions.end());
      }
    }
    if (!data.empty()) merge(node, data, place.conditions);
    if (is_enter(node.op)) place = enter(node, std::move(place));
    places_[index] = std::move(place);
  }

  // One data input: the Merge at the head of a loop, whose other one goes back.
  static void merge(const Node& node, const std::vector<Place>& data, Conditions& conditions) {
    if (data.size() == 1) {
      conditions.insert(data[0].conditions.begin(), data[0].conditions.end());
      return;
    }
    if (data.size() == 2) {
      Conditions differing;
      std::set_symmetric_difference(data[0].conditions.begin(), data[0].conditions.end(),
                                    data[1].conditions.begin(), data[1].conditions.end(),
                                    std::inserter(differing, differing.end()));
      if (differing.size() == 2 && differing.begin()->first == differing.rbegin()->first &&
          differing.begin()->second == 0 && differing.rbegin()->second == 1) {
        for (const Condition& condition : data[0].conditions) {
          if (!differing.contains(condition)) conditions.insert(condition);
        }
        return;
      }
    }
    conditions.emplace(node.name, kUnnamed);
  }

  Place enter(const Node& node, Place outside) {
    const auto attribute = node.attribute("frame_name");
    const auto name = attribute ? text_of(*attribute) : std::nullopt;
    if (!name) throw Doubt(node.name + " enters a frame without a name");
    const auto key = std::pair(outside.frame, std::string(*name));
    const auto [found, fresh] =
        frame_numbers_.try_emplace(key, static_cast<std::uint32_t>(frames_.size()));
    if (fresh) {
      frames_.push_back({.parent = outside.frame, .entry = std::move(outside.conditions)});
    } else if (frames_[found->second].entry != outside.conditions) {
      uneven_.insert(found->second);
    }
    return {.frame = found->second, .conditions = {}};
  }

  const Graph& graph_;
  const std::vector<std::vector<Edge>>& inputs_;
  std::set<std::uint32_t>& uneven_;
  std::vector<Place> places_;
  std::vector<Frame> frames_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> frame_numbers_;
};

}  // namespace

// Frames have the same numbers in each walk, since the sequence is the same.
ControlContexts find_contexts(const Graph& graph, const std::vector<std::vector<Edge>>& inputs,
                              const std::vector<NodeIndex>& sequence) {
  std::set<std::uint32_t> uneven;
  for (;;) {
    Walk walk(graph, inputs, uneven);
    if (!walk.visit_all(sequence)) return walk.result();
  }
}

}  // namespace spillway::tf
