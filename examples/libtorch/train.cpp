// SPDX-License-Identifier: Apache-2.0
// Trains a multilayer perceptron on noise, with plain libtorch.
//
//     train [--steps N] [--SETTING VALUE ...]        e.g. train --budget cpu:64MiB
//
// Settings are those of docs/settings.md. Without any, Spillway is not enabled. Prints each loss as
// a hexadecimal float and a hash of the final weights; what was moved goes to standard error.

// Not torch/torch.h: that one takes three times as long to compile.
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <spillway/spillway_torch.hpp>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kBatch = 64;
constexpr int kLayers = 10;

class Perceptron : public torch::nn::Module {
 public:
  Perceptron() {
    for (int i = 0; i < kLayers; ++i) {
      layers_.push_back(
          register_module("layer" + std::to_string(i), torch::nn::Linear(kWidth, kWidth)));
    }
  }

  torch::Tensor forward(torch::Tensor x) {
    for (torch::nn::Linear& layer : layers_) x = x + torch::gelu(layer(x));
    return x;
  }

 private:
  std::vector<torch::nn::Linear> layers_;
};

/// FNV-1a over the bytes of all parameters.
std::uint64_t hash_of(const torch::nn::Module& model) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const torch::Tensor& parameter : model.parameters()) {
    // Memory that is read by its address has to stay while it is read.
    spillway::torch::keep(parameter);
    const auto* bytes = static_cast<const unsigned char*>(parameter.const_data_ptr());
    for (std::size_t i = 0; i < parameter.nbytes(); ++i)
      hash = (hash ^ bytes[i]) * 1099511628211ULL;
    spillway::torch::release(parameter);
  }
  return hash;
}

void train(int steps) {
  torch::manual_seed(0);
  Perceptron model;
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
  const torch::Tensor input = torch::randn({kBatch, kWidth});
  const torch::Tensor target = torch::randn({kBatch, kWidth});
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    const torch::Tensor loss = torch::mse_loss(model.forward(input), target);
    loss.backward();
    optimizer.step();
    std::printf("loss %a\n", loss.item<double>());
  }
  std::printf("weights %016llx\n", static_cast<unsigned long long>(hash_of(model)));
}

void report() {
  const spillway::torch::Statistics statistics = spillway::torch::statistics();
  const auto evicted = statistics.evicted_bytes + statistics.clean_evicted_bytes;
  std::fprintf(stderr, "peak %llu, evicted %llu, fetched %llu bytes\n",
               static_cast<unsigned long long>(statistics.peak_device_bytes),
               static_cast<unsigned long long>(evicted),
               static_cast<unsigned long long>(statistics.fetched_bytes));
}

}  // namespace

int main(int count, char** words) try {
  int steps = 4;
  spillway::torch::Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = words[i];
    if (name == "--steps") {
      steps = std::atoi(words[i + 1]);
    } else {
      options[name.substr(name.find_first_not_of('-'))] = words[i + 1];
    }
  }
  if (!options.empty()) spillway::torch::enable(options);
  train(steps);
  if (!options.empty()) report();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "train: %s\n", error.what());
  return 2;
}
