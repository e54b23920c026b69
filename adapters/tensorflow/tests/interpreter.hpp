// SPDX-License-Identifier: Apache-2.0
// Executes a graph of tests as TensorFlow's executor does: a node runs in a frame and an iteration
// when its inputs are there; what a branch did not take is dead, and deadness is passed on. Nodes
// that could run now run in random order. A value is a number that depends on the node and all its
// inputs; a swapped-out value is not that number until a swap-in makes it so. The number of a cheap
// op (twins.hpp) depends on the op and not on the node, so that a copy of it has the same one, and
// whether a twin runs is drawn each time.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "graph_def.hpp"

namespace spillway::tf::testing {

struct Value {
  bool dead = false;
  std::uint64_t number = 0;

  bool operator==(const Value&) const = default;
};

/// A node, the frame it ran in (with the iterations around it), the iteration.
using Firing = std::tuple<std::string, std::string, std::uint64_t>;

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::uint64_t seed);

  /// The first output of each firing of each node.
  std::map<Firing, Value> execute();

 private:
  struct Consumer {
    std::size_t node;
    std::size_t input;
    std::uint32_t port;
    bool control;
  };
  struct Arrived {
    std::map<std::size_t, Value> data;
    std::size_t controls = 0;
    bool dead_control = false;
    bool done = false;
  };
  struct Ready {
    std::size_t node;
    std::string frame;
    std::uint64_t iteration;
  };
  using Key = std::tuple<std::size_t, std::string, std::uint64_t>;

  void run(const Ready& ready);
  void put_out(const Ready& from, const std::vector<Value>& outputs);
  void deliver(const Consumer& consumer, const std::string& frame, std::uint64_t iteration,
               const Value& value);
  [[nodiscard]] bool is_ready(std::size_t node, std::uint64_t iteration,
                              const Arrived& arrived) const;
  std::vector<Value> compute(const Ready& ready, const Arrived& arrived);

  const Graph& graph_;
  std::mt19937_64 random_;
  std::vector<std::vector<Consumer>> consumers_;
  std::vector<std::size_t> controls_;  // of each node
  std::map<Key, Arrived> arrived_;
  std::map<std::string, std::pair<std::string, std::uint64_t>> parents_;  // of frames
  std::map<std::string, bool> dead_frames_;
  std::vector<Ready> ready_;
  std::map<Firing, Value> log_;
};

/// Without the nodes that were put in.
std::map<Firing, Value> without_ours(std::map<Firing, Value> log);

}  // namespace spillway::tf::testing
