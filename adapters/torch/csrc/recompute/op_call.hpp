// SPDX-License-Identifier: Apache-2.0
// A call of an operator that can be made again.
//
//     arguments as the call had them | tensors as a description: which storage, sizes, strides
//     the thread's and the process's settings that its kernel reads
//
// No reference to a tensor or a storage that the engine moves is kept: one to a tensor would stop
// autograd from taking gradients over. Run again, a call has tensors of its own over the addresses
// that it is given, below autograd and autocast, and no callback sees it.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/op_facts.hpp"
#include "recompute/small_copies.hpp"
#include "session/engines.hpp"
#include "spillway/runtime/exec/making.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

class OpCall final : public runtime::Making {
 public:
  /// The call that begins, and the storages that it reads of those that an engine moves: the
  /// sources. `overwritten`, which comes first among them, is the one that it writes; null: none.
  /// No call if it cannot be made again.
  struct Begun {
    std::shared_ptr<OpCall> call;
    std::vector<runtime::StorageRecord*> sources;
  };
  static Begun of(const Engines& engines, const OpFacts& facts, const at::RecordFunction& function,
                  runtime::StorageRecord* overwritten);
  /// It has ended, with those results.
  void end(c10::ArrayRef<const c10::IValue> results, TimeNs cost);

  [[nodiscard]] const char* name() const noexcept override { return name_; }
  [[nodiscard]] bool usable() const noexcept override { return true; }
  void run(std::span<std::byte* const> sources, std::uint32_t output, std::byte* to) const override;

  /// As the kernel found them.
  struct Surroundings {
    int threads;
    bool grad;
    bool mkldnn;
    bool deterministic;
    bool warns_only;           ///< of that
    std::uint32_t arithmetic;  ///< rounding, and what is done with denormal numbers
    caffe2::TypeMeta type;     ///< of numbers for which none is stated
    static Surroundings now();
    bool operator==(const Surroundings&) const = default;
  };

 private:
  struct Tensor {
    std::size_t argument;           // and
    std::optional<std::size_t> at;  // its place in a list
    std::size_t source;             // among those of the call, or kSmall
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;
    std::int64_t offset;
    caffe2::TypeMeta type;
    c10::Device device;
    std::size_t bytes;  // of its storage
    std::shared_ptr<const SmallCopy> small;
    bool number;  // that the program wrote as one: it changes no type
  };
  struct Draft;
  static constexpr std::size_t kSmall = ~std::size_t{0};

  OpCall(c10::OperatorHandle op, const char* name);
  [[nodiscard]] at::Tensor over(const Tensor& tensor, std::span<std::byte* const> sources) const;
  [[nodiscard]] ::torch::jit::Stack arguments(std::span<std::byte* const> sources) const;

  c10::OperatorHandle op_;
  const char* name_;
  std::vector<c10::IValue> values_;  // without tensors
  std::vector<Tensor> tensors_;
  std::vector<std::size_t> list_sizes_;  // by argument; 0: not a list of tensors
  std::vector<std::size_t> output_bytes_;
  Surroundings surroundings_;
};

}  // namespace spillway::torch
