// SPDX-License-Identifier: Apache-2.0
#include "interpreter.hpp"

#include <functional>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "control_context.hpp"
#include "rewrite.hpp"
#include "twins.hpp"

namespace spillway::tf::testing {
namespace {

constexpr std::uint64_t kSwappedOut = 0x5A5A5A5A5A5A5A5AULL;

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  a ^= b + 0x9E3779B97F4A7C15ULL + (a << 6) + (a >> 2);
  return a * 0xBF58476D1CE4E5B9ULL;
}

}  // namespace

Interpreter::Interpreter(const Graph& graph, std::uint64_t seed)
    : graph_(graph), random_(seed), consumers_(graph.nodes.size()), controls_(graph.nodes.size()) {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) index[graph.nodes[i].name] = i;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (std::size_t k = 0; k < graph.nodes[i].inputs.size(); ++k) {
      const InputName input = parse_input(graph.nodes[i].inputs[k]);
      consumers_[index.at(std::string(input.node))].push_back(
          {.node = i, .input = k, .port = input.port, .control = input.control});
      if (input.control) ++controls_[i];
    }
  }
}

std::map<Firing, Value> Interpreter::execute() {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (graph_.nodes[i].inputs.empty()) ready_.push_back({.node = i, .frame = {}, .iteration = 0});
  }
  while (!ready_.empty()) {
    const std::size_t some = random_() % ready_.size();
    const Ready next = ready_[some];
    ready_[some] = ready_.back();
    ready_.pop_back();
    run(next);
  }
  return log_;
}

bool Interpreter::is_ready(std::size_t node, std::uint64_t iteration,
                           const Arrived& arrived) const {
  if (arrived.controls != controls_[node]) return false;
  const Node& it = graph_.nodes[node];
  const std::size_t data = it.inputs.size() - controls_[node];
  if (!is_merge(it.op)) return arrived.data.size() == data;
  std::size_t dead = 0;
  for (const auto& [input, value] : arrived.data) {
    if (!value.dead) return true;
    ++dead;
  }
  // The head of a loop has one input besides the one that goes back.
  const bool heads_loop = data == 2 && it.inputs[1].find("NextIteration") == 0;
  return dead == (heads_loop && iteration == 0 ? 1 : data);
}

void Interpreter::deliver(const Consumer& consumer, const std::string& frame,
                          std::uint64_t iteration, const Value& value) {
  Arrived& arrived = arrived_[{consumer.node, frame, iteration}];
  if (consumer.control) {
    ++arrived.controls;
    arrived.dead_control = arrived.dead_control || value.dead;
  } else {
    arrived.data[consumer.input] = value;
  }
  if (!arrived.done && is_ready(consumer.node, iteration, arrived)) {
    arrived.done = true;
    ready_.push_back({.node = consumer.node, .frame = frame, .iteration = iteration});
  }
}

std::vector<Value> Interpreter::compute(const Ready& ready, const Arrived& arrived) {
  const Node& node = graph_.nodes[ready.node];
  bool dead = arrived.dead_control;
  if (is_merge(node.op)) {
    for (const auto& [input, value] : arrived.data) {
      if (!value.dead) return {{.dead = dead, .number = value.number}};
    }
    return {{.dead = true}};
  }
  std::uint64_t number = std::hash<std::string>()(is_cheap(node.op) ? node.op : node.name);
  std::uint64_t first = 0;
  for (const auto& [input, value] : arrived.data) {
    dead = dead || value.dead;
    if (input == 0) first = value.number;
    number = mix(number, value.number);
  }
  if (dead) return {{.dead = true}, {.dead = true}};
  if (is_switch(node.op)) {
    const bool side = (arrived.data.at(1).number & 1U) != 0;
    return {{.dead = side, .number = first}, {.dead = !side, .number = first}};
  }
  if (node.op == kSwapOutOp || node.op == kSwapInOp) return {{.number = first ^ kSwappedOut}};
  if (node.op == kRecomputesOp) return {{.number = random_() & 1U}};
  if (node.op == kTwinOp || node.op == kUseOp || is_enter(node.op) || is_exit(node.op) ||
      is_next_iteration(node.op)) {
    return {{.number = first}};
  }
  if (node.op == "Zero") return {{.number = 0}};
  if (node.op == "Next") return {{.number = first + 1}};
  if (node.op == "LessThan3") return {{.number = first < 3 ? 1U : 0U}};
  if (node.op == "LoopCond" || node.op == "Identity") return {{.number = first}};
  return {{.number = number}, {.number = mix(number, 1)}};
}

void Interpreter::run(const Ready& ready) {
  const Arrived& arrived = arrived_[{ready.node, ready.frame, ready.iteration}];
  const std::vector<Value> outputs = compute(ready, arrived);
  const Firing name{graph_.nodes[ready.node].name, ready.frame, ready.iteration};
  if (!log_.emplace(name, outputs.front()).second) {
    throw std::logic_error(graph_.nodes[ready.node].name + " ran twice");
  }
  put_out(ready, outputs);
}

void Interpreter::put_out(const Ready& from, const std::vector<Value>& outputs) {
  const Node& node = graph_.nodes[from.node];
  std::string frame = from.frame;
  std::uint64_t iteration = from.iteration;
  const bool dead = outputs.front().dead;
  if (is_enter(node.op)) {
    frame += "/" + std::string(*text_of(*node.attribute("frame_name"))) + "@" +
             std::to_string(iteration);
    parents_[frame] = {from.frame, iteration};
    dead_frames_[frame] = dead;
    iteration = 0;
  } else if (is_exit(node.op)) {
    // A dead one tells of an iteration that went on, unless nothing entered the frame.
    if (dead && !(dead_frames_.at(frame) && iteration == 0)) return;
    std::tie(frame, iteration) = std::pair(parents_.at(from.frame));
  } else if (is_next_iteration(node.op)) {
    if (dead) return;
    ++iteration;
  }
  for (const Consumer& consumer : consumers_[from.node]) {
    const Value control{.dead = is_switch(node.op) ? false : dead};
    deliver(consumer, frame, iteration, consumer.control ? control : outputs.at(consumer.port));
  }
}

std::map<Firing, Value> without_ours(std::map<Firing, Value> log) {
  std::erase_if(log,
                [](const auto& firing) { return std::get<0>(firing.first).starts_with(kPrefix); });
  return log;
}

}  // namespace spillway::tf::testing
