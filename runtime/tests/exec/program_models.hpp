// SPDX-License-Identifier: Apache-2.0
// Small models of programs that write streams of ops, and what the recogniser said about each
// touch next to what was true. The truth is computed afterwards, by walking the whole stream
// backwards; it shares no code with the recogniser.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "spillway/runtime/exec/step_recogniser.hpp"

namespace spillway::runtime {

using Storage = std::uint64_t;

struct Op {
  std::uint64_t signature;
  bool boundary;
  std::vector<Storage> touches;
};

/// The ops of one program run, and how to write them.
class Stream {
 public:
  Storage fresh() { return ++last_storage_; }
  std::vector<Storage> fresh(std::size_t count) {
    std::vector<Storage> storages(count);
    for (Storage& storage : storages) {
      storage = fresh();
    }
    return storages;
  }
  void op(const std::string& name, std::uint64_t shape, std::vector<Storage> touches) {
    const std::uint64_t signature = std::hash<std::string>{}(name) ^ (shape * 0x9E3779B97F4A7C15U);
    ops.push_back({signature, false, std::move(touches)});
  }
  void boundary() { ops.back().boundary = true; }
  std::uint64_t size() const { return ops.size(); }

  std::vector<Op> ops;

 private:
  Storage last_storage_ = 1000;
};

/// A network with an Adam optimizer. `shape_of(layer)` equal for all layers: inner repetition.
class Network {
 public:
  Network(Stream& stream, std::string name, std::uint64_t layers, bool equal_layers)
      : stream_(stream), name_(std::move(name)), layers_(layers), equal_(equal_layers) {
    weights_ = stream.fresh(layers);
    first_moments_ = stream.fresh(layers);
    second_moments_ = stream.fresh(layers);
    gradients_.assign(layers, 0);
  }

  Storage forward(std::uint64_t batch, Storage input) {
    saved_.clear();
    for (std::uint64_t i = 0; i < layers_; ++i) {
      const std::vector<Storage> out = stream_.fresh(3);
      stream_.op(name_ + "mm", shape(i, batch), {input, weights_[i], out[0]});
      stream_.op(name_ + "norm", shape(i, batch), {out[0], out[1]});
      stream_.op(name_ + "relu", shape(i, batch), {out[1], out[2]});
      saved_.push_back({input, out[0], out[1]});
      input = out[2];
    }
    return input;
  }

  void backward(std::uint64_t batch, Storage gradient) {
    for (std::uint64_t i = layers_; i-- > 0;) {
      const std::vector<Storage> out = stream_.fresh(3);
      stream_.op(name_ + "relu'", shape(i, batch), {gradient, saved_[i][2], out[0]});
      stream_.op(name_ + "norm'", shape(i, batch), {out[0], saved_[i][1], out[1]});
      stream_.op(name_ + "mm'x", shape(i, batch), {out[1], weights_[i], out[2]});
      if (gradients_[i] == 0) {
        gradients_[i] = stream_.fresh();
        stream_.op(name_ + "mm'w", shape(i, batch), {out[1], saved_[i][0], gradients_[i]});
      } else {
        const Storage partial = stream_.fresh();
        stream_.op(name_ + "mm'w", shape(i, batch), {out[1], saved_[i][0], partial});
        stream_.op(name_ + "add_", shape(i, 0), {gradients_[i], partial});
      }
      gradient = out[2];
    }
  }

  void update() {
    for (std::uint64_t i = 0; i < layers_; ++i) {
      stream_.op("lerp_", shape(i, 0), {first_moments_[i], gradients_[i]});
      stream_.op("addcmul_", shape(i, 0), {second_moments_[i], gradients_[i]});
      stream_.op("addcdiv_", shape(i, 0), {weights_[i], first_moments_[i], second_moments_[i]});
    }
    gradients_.assign(layers_, 0);
  }

  void loss_and_backward(std::uint64_t batch) {
    const Storage output = forward(batch, stream_.fresh());
    const Storage loss = stream_.fresh();
    const Storage gradient = stream_.fresh();
    stream_.op("loss", batch, {output, loss});
    stream_.op("loss'", batch, {output, gradient});
    backward(batch, gradient);
  }

  void train(std::uint64_t batch) {
    loss_and_backward(batch);
    update();
  }

  void evaluate(std::uint64_t batch) {
    const Storage output = forward(batch, stream_.fresh());
    stream_.op("accuracy", batch, {output, stream_.fresh()});
    saved_.clear();
  }

 private:
  std::uint64_t shape(std::uint64_t layer, std::uint64_t batch) const {
    return batch * 1000 + (equal_ ? 0 : layer + 1);
  }

  Stream& stream_;
  std::string name_;
  std::uint64_t layers_;
  bool equal_;
  std::vector<Storage> weights_;
  std::vector<Storage> first_moments_;
  std::vector<Storage> second_moments_;
  std::vector<Storage> gradients_;
  std::vector<std::vector<Storage>> saved_;
};

struct Shares {
  double exact = 0;
  double wrong = 0;  ///< known, and not the truth
  double unknown = 0;
};

/// The recogniser's statement about each touch, and the truth.
struct Outcome {
  StepRecogniser recogniser;
  std::vector<std::uint8_t> on_path;       ///< per op
  std::vector<std::uint64_t> position;     ///< per op
  std::vector<std::uint64_t> first_touch;  ///< per op, and one more
  std::vector<std::uint64_t> said;         ///< per touch
  std::vector<std::uint64_t> truth;        ///< per touch

  Shares shares(std::uint64_t from, std::uint64_t to) const {
    Shares shares;
    for (std::uint64_t t = first_touch[from]; t < first_touch[to]; ++t) {
      shares.exact += said[t] == truth[t];
      shares.unknown += said[t] == kUnknownUse;
      shares.wrong += said[t] != kUnknownUse && said[t] != truth[t];
    }
    const double touches = static_cast<double>(first_touch[to] - first_touch[from]);
    return {shares.exact / touches, shares.wrong / touches, shares.unknown / touches};
  }
  /// First op at or behind `from` that is on the path.
  std::uint64_t back_at(std::uint64_t from) const {
    while (from < on_path.size() && on_path[from] == 0) {
      ++from;
    }
    return from;
  }
};

inline std::vector<std::uint64_t> true_next_uses(const Stream& stream, std::uint64_t touches) {
  std::vector<std::uint64_t> truth(touches);
  std::unordered_map<Storage, std::uint64_t> next;
  for (std::uint64_t op = stream.size(); op-- > 0;) {
    const std::vector<Storage>& touched = stream.ops[op].touches;
    touches -= touched.size();
    for (std::size_t i = 0; i < touched.size(); ++i) {
      const auto found = next.find(touched[i]);
      truth[touches + i] = found == next.end() ? kNeverUsed : found->second;
    }
    for (const Storage storage : touched) {
      next[storage] = op;
    }
  }
  return truth;
}

inline Outcome run(const Stream& stream) {
  Outcome outcome;
  for (const Op& op : stream.ops) {
    outcome.recogniser.begin_op(op.signature, op.boundary);
    outcome.on_path.push_back(outcome.recogniser.on_path());
    outcome.position.push_back(outcome.recogniser.position());
    outcome.first_touch.push_back(outcome.said.size());
    for (const Storage storage : op.touches) {
      outcome.said.push_back(outcome.recogniser.touch(storage));
    }
  }
  outcome.first_touch.push_back(outcome.said.size());
  outcome.truth = true_next_uses(stream, outcome.said.size());
  return outcome;
}

inline void print(const std::string& what, const Shares& shares, const Outcome& outcome) {
  const RecogniserStatistics& s = outcome.recogniser.statistics();
  std::printf(
      "%-28s exact %.4f wrong %.4f unknown %.4f; loops %llu detours %llu departures %llu "
      "branches %llu resyncs %llu mismatches %llu period %llu\n",
      what.c_str(), shares.exact, shares.wrong, shares.unknown,
      static_cast<unsigned long long>(s.loops_found),
      static_cast<unsigned long long>(s.detours_recorded),
      static_cast<unsigned long long>(s.departures), static_cast<unsigned long long>(s.branches),
      static_cast<unsigned long long>(s.resynchronisations),
      static_cast<unsigned long long>(s.mismatches),
      static_cast<unsigned long long>(outcome.recogniser.period()));
}

/// `repeat` times `step`; afterwards `begins[i]` is the first op of step i.
inline std::vector<std::uint64_t> repeat(Stream& stream, std::size_t times,
                                         const std::function<void(std::size_t)>& step) {
  std::vector<std::uint64_t> begins;
  for (std::size_t i = 0; i < times; ++i) {
    begins.push_back(stream.size());
    step(i);
  }
  begins.push_back(stream.size());
  return begins;
}

/// A random step: blocks of ops from a small vocabulary, some repeated, over a mixture of lasting
/// and fresh storages.
struct RandomProgram {
  struct Use {
    bool lasting;
    std::size_t which;  ///< lasting: index; else: how many fresh storages back
  };
  struct Line {
    std::uint64_t signature;
    std::vector<Use> uses;
  };
  std::vector<Line> lines;

  RandomProgram(std::mt19937_64& random, bool repeats_blocks) {
    lines.push_back({12, {}});  // or ops might repeat faster than storages do
    const std::size_t blocks = 1 + random() % 8;
    for (std::size_t block = 0; block < blocks; ++block) {
      std::vector<Line> body(1 + random() % 30);
      for (Line& line : body) {
        line.signature = random() % 12;
        line.uses.resize(random() % 4);
        for (Use& use : line.uses) {
          use = {random() % 2 == 0, random() % 40};
        }
      }
      const std::size_t times = !repeats_blocks || random() % 2 == 0 ? 1 : 1 + random() % 8;
      for (std::size_t i = 0; i < times; ++i) {
        lines.insert(lines.end(), body.begin(), body.end());
      }
    }
  }

  void step(Stream& stream, const std::vector<Storage>& lasting) const {
    std::vector<Storage> made = {stream.fresh()};
    for (const Line& line : lines) {
      Op op{line.signature, false, {}};
      for (const Use& use : line.uses) {
        const std::size_t back = std::min(use.which, made.size() - 1);
        op.touches.push_back(use.lasting ? lasting[use.which] : made[made.size() - 1 - back]);
      }
      made.push_back(stream.fresh());
      op.touches.push_back(made.back());
      stream.ops.push_back(std::move(op));
    }
  }
};

}  // namespace spillway::runtime
