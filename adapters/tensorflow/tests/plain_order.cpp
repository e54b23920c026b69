// SPDX-License-Identifier: Apache-2.0
#include "plain_order.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "control_context.hpp"

namespace spillway::tf::testing {
namespace {

Place all_of(const std::vector<Place>& passed) {
  Place all;
  for (const Place& place : passed) {
    if (place.frame.size() > all.frame.size()) all.frame = place.frame;
    all.conditions.insert(place.conditions.begin(), place.conditions.end());
  }
  return all;
}

// The two sides of one predicate take the condition away; others make a new one.
Place merge_of(const Place& one, const Place& other, const std::string& name) {
  Place place{.frame = one.frame, .conditions = {}, .device = {}};
  std::vector<std::string> alone;
  std::ranges::set_symmetric_difference(one.conditions, other.conditions,
                                        std::back_inserter(alone));
  const auto predicate = [](const std::string& text) { return text.substr(0, text.find('=')); };
  if (alone.size() != 2 || predicate(alone[0]) != predicate(alone[1])) {
    place.conditions.insert(name);
    return place;
  }
  std::ranges::set_intersection(one.conditions, other.conditions,
                                std::inserter(place.conditions, place.conditions.end()));
  return place;
}

}  // namespace

PlainOrder::PlainOrder(Graph graph)
    : graph_(std::move(graph)),
      inputs_(graph_.nodes.size()),
      before_(graph_.nodes.size()),
      place_(graph_.nodes.size()),
      level_(graph_.nodes.size(), 1) {
  for (NodeIndex i = 0; i < size(); ++i) index_[node(i).name] = i;
  find_inputs();
  find_places();
  end_loops();
  find_levels();
  lower_sources();
}

// Only the way back of a loop leaves a NextIteration.
void PlainOrder::find_inputs() {
  for (NodeIndex i = 0; i < size(); ++i) {
    for (const std::string& text : node(i).inputs) {
      const InputName input = parse_input(text);
      const NodeIndex from = index_.at(std::string(input.node));
      inputs_[i].push_back({.from = from, .port = input.port, .control = input.control});
      if (!is_next_iteration(node(from).op)) before_[i].insert(from);
    }
  }
}

void PlainOrder::find_places() {
  const auto placed = [this](NodeIndex from) { return place_[from].has_value(); };
  for (bool found = true; found;) {
    found = false;
    for (NodeIndex i = 0; i < size(); ++i) {
      if (placed(i) || !std::ranges::all_of(before_[i], placed)) continue;
      place_[i] = find_place(i);
      found = true;
    }
  }
  for (NodeIndex i = 0; i < size(); ++i) {
    if (!placed(i)) throw std::logic_error(node(i).name + " is in a cycle");
  }
}

Place PlainOrder::find_place(NodeIndex index) {
  const Node& here = node(index);
  std::vector<Place> passed;
  for (const Input& input : inputs_[index]) {
    if (!is_next_iteration(node(input.from).op)) passed.push_back(passed_by(input));
  }
  Place place = is_merge(here.op) && passed.size() == 2 ? merge_of(passed[0], passed[1], here.name)
                                                        : all_of(passed);
  place.device = here.device;
  if (is_enter(here.op)) {
    place.frame.emplace_back(*text_of(*here.attribute("frame_name")));
    entered_[place.frame].insert(place.conditions.begin(), place.conditions.end());
  }
  return place;
}

// What holds where a tensor arrives: an output of a Switch is one side of its predicate, that of an
// Exit is where its frame was entered.
Place PlainOrder::passed_by(const Input& input) const {
  Place passed = place(input.from);
  if (is_exit(node(input.from).op)) {
    passed.conditions = entered_.at(passed.frame);
    passed.frame.pop_back();
  }
  if (is_switch(node(input.from).op) && !input.control) {
    const Input& predicate = inputs_[input.from][1];
    passed.conditions.insert(node(predicate.from).name + ":" + std::to_string(predicate.port) +
                             "=" + std::to_string(input.port));
  }
  return passed;
}

// All NextIterations of a loop come before all its Exits.
void PlainOrder::end_loops() {
  for (NodeIndex exit = 0; exit < size(); ++exit) {
    if (!is_exit(node(exit).op)) continue;
    const std::vector<std::string>& frame = place(exit).frame;
    for (NodeIndex next = 0; next < size(); ++next) {
      if (is_next_iteration(node(next).op) && place(next).frame == frame) {
        before_[exit].insert(next);
      }
    }
  }
}

void PlainOrder::find_levels() {
  for (bool changed = true; changed;) {
    changed = false;
    for (NodeIndex i = 0; i < size(); ++i) {
      for (const NodeIndex from : before_[i]) {
        if (level_[i] > level_[from]) continue;
        level_[i] = level_[from] + 1;
        if (level_[i] > size()) throw std::logic_error(node(i).name + " is in a cycle");
        changed = true;
      }
    }
  }
}

void PlainOrder::lower_sources() {
  std::map<NodeIndex, std::uint32_t> first;  // level of a source's users
  for (NodeIndex i = 0; i < size(); ++i) {
    for (const NodeIndex from : before_[i]) {
      if (!before_[from].empty()) continue;
      const auto entry = first.emplace(from, level_[i]).first;
      entry->second = std::min(entry->second, level_[i]);
    }
  }
  for (const auto& [source, level] : first) level_[source] = level - 1;
}

std::vector<NodeSet> all_before(const PlainOrder& order) {
  if (order.size() > NodeSet().size()) throw std::logic_error("a NodeSet is too small");
  std::vector<NodeIndex> sequence(order.size());
  std::iota(sequence.begin(), sequence.end(), NodeIndex{0});
  std::ranges::sort(sequence, {}, [&order](NodeIndex i) { return order.level(i); });
  std::vector<NodeSet> all(order.size());
  for (const NodeIndex node : sequence) {
    for (const NodeIndex from : order.before(node)) {
      all[node] |= all[from];
      all[node].set(from);
    }
  }
  return all;
}

std::vector<NodeIndex> plain_depth_first(const PlainOrder& order) {
  std::vector<NodeIndex> sequence;
  std::vector<std::size_t> came(order.size());  // 0: not yet
  // A node is ready since the last of those before it came.
  const auto ready_since = [&](NodeIndex node) -> std::optional<std::size_t> {
    std::size_t since = 0;
    for (const NodeIndex from : order.before(node)) {
      if (came[from] == 0) return std::nullopt;
      since = std::max(since, came[from]);
    }
    return since;
  };
  while (sequence.size() < order.size()) {
    std::optional<NodeIndex> next;
    std::size_t latest = 0;
    for (NodeIndex node = 0; node < order.size(); ++node) {
      const auto since = came[node] > 0 ? std::nullopt : ready_since(node);
      if (!since || (next && *since <= latest)) continue;
      next = node;
      latest = *since;
    }
    sequence.push_back(next.value());
    came[*next] = sequence.size();
  }
  return sequence;
}

}  // namespace spillway::tf::testing
