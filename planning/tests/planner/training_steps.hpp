// SPDX-License-Identifier: Apache-2.0
// Steps as training makes them: a forward pass that saves, a backward pass that reads what was
// saved, an optimizer. Sizes and times vary with the seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "spillway/machine/machine.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

struct NetworkShape {
  std::uint64_t seed = 1;
  int layers = 8;
  std::uint64_t activation_bytes = 1'000'000;
  std::uint64_t weight_bytes = 100'000;
  double heavy_ns = 1e6;    ///< of a convolution; its backward pass takes twice that
  double light_ns = 1e5;    ///< of normalisation and activation function
  bool middle_dies = true;  ///< the normalisation's output is not saved
  bool optimizer_state = true;
};

class TrainingStep {
 public:
  explicit TrainingStep(const NetworkShape& shape) : shape_(shape), random_(shape.seed) {}

  Trace build() {
    forward();
    backward();
    if (shape_.optimizer_state) optimize();
    return std::move(trace_);
  }

 private:
  std::uint64_t bytes(std::uint64_t about) {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(vary(static_cast<double>(about))));
  }
  double vary(double about) {
    return about * std::uniform_real_distribution<double>(0.5, 1.5)(random_);
  }
  TimeNs time(double about) { return std::max<TimeNs>(1, static_cast<TimeNs>(vary(about))); }
  StorageId storage(std::uint64_t size, StorageRole role, bool persistent = false) {
    return trace_.add(TraceStorage{.bytes = Bytes{size}, .role = role, .persistent = persistent});
  }
  std::uint64_t size(StorageId id) const { return trace_.storages.bytes[to_value(id)].count; }

  void forward() {
    inputs_.push_back(storage(shape_.activation_bytes, StorageRole::kInput));
    for (int i = 0; i < shape_.layers; ++i) {
      weights_.push_back(storage(bytes(shape_.weight_bytes), StorageRole::kParameter, true));
      const std::uint64_t out = bytes(shape_.activation_bytes);
      const StorageId linear = storage(out, StorageRole::kActivation);
      const StorageId middle = storage(out, StorageRole::kActivation);
      const StorageId output = storage(out, StorageRole::kActivation);
      trace_.add(TraceOp{.name = "conv",
                         .duration_ns = time(shape_.heavy_ns),
                         .recomputable = true,
                         .workspace = Bytes{bytes(shape_.activation_bytes) / 8},
                         .reads = {inputs_.back(), weights_.back()},
                         .creates = {linear}});
      trace_.add(TraceOp{.name = "norm",
                         .duration_ns = time(shape_.light_ns),
                         .recomputable = true,
                         .reads = {linear},
                         .creates = {middle}});
      TraceOp relu{.name = "relu",
                   .duration_ns = time(shape_.light_ns),
                   .recomputable = true,
                   .reads = {middle},
                   .creates = {output}};
      if (shape_.middle_dies) relu.frees = {middle};
      trace_.add(relu);
      linears_.push_back(linear);
      middles_.push_back(middle);
      inputs_.push_back(output);
    }
  }

  void backward() {
    StorageId gradient = storage(size(inputs_.back()), StorageRole::kGradient);
    trace_.add(TraceOp{.name = "loss",
                       .duration_ns = time(shape_.light_ns),
                       .reads = {inputs_.back()},
                       .creates = {gradient}});
    for (int i = shape_.layers - 1; i >= 0; --i) {
      const auto k = static_cast<std::size_t>(i);
      const StorageId of_norm = storage(size(linears_[k]), StorageRole::kGradient);
      TraceOp relu{.name = "relu_backward",
                   .duration_ns = time(shape_.light_ns),
                   .reads = {gradient, inputs_[k + 1]},
                   .creates = {of_norm},
                   .frees = {gradient, inputs_[k + 1]}};
      if (!shape_.middle_dies) relu.frees.push_back(middles_[k]);
      trace_.add(relu);
      const StorageId of_conv = storage(size(linears_[k]), StorageRole::kGradient);
      trace_.add(TraceOp{.name = "norm_backward",
                         .duration_ns = time(shape_.light_ns),
                         .reads = {of_norm, linears_[k]},
                         .creates = {of_conv},
                         .frees = {of_norm, linears_[k]}});
      gradients_.push_back(storage(size(weights_[k]), StorageRole::kGradient));
      gradient = storage(size(inputs_[k]), StorageRole::kGradient);
      TraceOp conv{.name = "conv_backward",
                   .duration_ns = time(2 * shape_.heavy_ns),
                   .workspace = Bytes{bytes(shape_.activation_bytes) / 8},
                   .reads = {of_conv, weights_[k], inputs_[k]},
                   .creates = {gradients_.back(), gradient},
                   .frees = {of_conv}};
      if (i == 0) conv.frees.insert(conv.frees.end(), {inputs_[0], gradient});
      if (!shape_.optimizer_state) conv.frees.push_back(gradients_.back());
      trace_.add(conv);
    }
  }

  void optimize() {
    for (int i = 0; i < shape_.layers; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const StorageId of_weight = gradients_[gradients_.size() - 1 - k];
      const StorageId state = storage(2 * size(weights_[k]), StorageRole::kOptimizerState, true);
      trace_.add(TraceOp{.name = "adam",
                         .duration_ns = time(shape_.light_ns),
                         .reads = {of_weight, weights_[k], state},
                         .writes = {weights_[k], state},
                         .frees = {of_weight}});
    }
  }

  NetworkShape shape_;
  std::mt19937_64 random_;
  Trace trace_;
  std::vector<StorageId> weights_, inputs_, linears_, middles_, gradients_;
};

/// Equal links between device and host, without latency unless given.
inline Machine machine_with_links(double bytes_per_second, TimeNs latency = 0,
                                  double disk_bytes_per_second = 1e9) {
  Machine machine;
  machine.name = "test";
  machine.device.capacity.value = kGiB * 1024;
  machine.device.memory_bytes_per_second.value = 1e12;
  machine.host_capacity.value = kGiB * 1024;
  machine.page_locked_capacity.value = kGiB * 1024;
  machine.disk_capacity.value = kGiB * 1024;
  machine.links = {Link{bytes_per_second, latency, "test"}, Link{bytes_per_second, latency, "test"},
                   Link{disk_bytes_per_second, latency, "test"},
                   Link{disk_bytes_per_second, latency, "test"}};
  return machine;
}

}  // namespace spillway::planning
