// SPDX-License-Identifier: Apache-2.0
#include "ops/op_cost.hpp"

#include <algorithm>

namespace spillway::torch {

namespace {

using Sizes = c10::IntArrayRef;

std::uint64_t product(Sizes sizes) {
  std::uint64_t result = 1;
  for (const std::int64_t size : sizes) result *= static_cast<std::uint64_t>(size);
  return result;
}

const at::Tensor* tensor_at(c10::ArrayRef<const c10::IValue> inputs, std::size_t position) {
  if (position >= inputs.size() || !inputs[position].isTensor()) return nullptr;
  const at::Tensor& tensor = inputs[position].toTensor();
  return tensor.defined() ? &tensor : nullptr;
}

// 2 [..] m k n
std::uint64_t matmul(const at::Tensor* left, const at::Tensor* right) {
  if (left == nullptr || right == nullptr || left->dim() < 2 || right->dim() < 2) return 0;
  return 2 * product(left->sizes()) * static_cast<std::uint64_t>(right->size(-1));
}

// Per position of the output (of the input where transposed): two per weight and sample.
std::uint64_t convolution(const at::Tensor& input, const at::Tensor& weight) {
  return 2 * product(weight.sizes()) * static_cast<std::uint64_t>(input.size(0));
}

std::uint64_t positions(const at::Tensor& image) {
  return image.dim() < 2 ? 1 : product(image.sizes().slice(2));
}

bool flag_at(c10::ArrayRef<const c10::IValue> inputs, std::size_t position) {
  return position < inputs.size() && inputs[position].isBool() && inputs[position].toBool();
}

// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
// groups, output_mask): as many again as the forward pass for each of the two gradients asked for.
std::uint64_t convolution_backward(c10::ArrayRef<const c10::IValue> inputs) {
  const at::Tensor* gradient = tensor_at(inputs, 0);
  const at::Tensor* input = tensor_at(inputs, 1);
  const at::Tensor* weight = tensor_at(inputs, 2);
  if (gradient == nullptr || input == nullptr || weight == nullptr) return 0;
  const bool transposed = flag_at(inputs, 7);
  std::uint64_t passes = 2;
  if (!inputs.empty() && inputs.back().isBoolList()) {
    const auto mask = inputs.back().toBoolList();
    passes = mask.size() < 2 ? 2 : (mask[0] ? 1U : 0U) + (mask[1] ? 1U : 0U);
  }
  return passes * convolution(*input, *weight) * positions(transposed ? *input : *gradient);
}

// Products of queries with keys and of scores with values: 2 b h s_q s_k (d_q + d_v).
std::uint64_t attention(const at::Tensor* query, const at::Tensor* key, const at::Tensor* value,
                        std::uint64_t with_query, std::uint64_t with_value) {
  if (query == nullptr || key == nullptr || value == nullptr || query->dim() < 3) return 0;
  const Sizes sizes = query->sizes();
  const std::uint64_t scores =
      product(sizes.slice(0, sizes.size() - 1)) * static_cast<std::uint64_t>(key->size(-2));
  return 2 * scores *
         (with_query * static_cast<std::uint64_t>(query->size(-1)) +
          with_value * static_cast<std::uint64_t>(value->size(-1)));
}

Arithmetic arithmetic_of(at::ScalarType type, FlopRule rule, TensorFloat32Use rounding) {
  switch (type) {
    case at::kDouble:
      return Arithmetic::kFloat64;
    case at::kHalf:
      return Arithmetic::kFloat16;
    case at::kBFloat16:
      return Arithmetic::kBfloat16;
    case at::kChar:
      return Arithmetic::kInt8;
    case at::kFloat: {
      const bool convolves =
          rule == FlopRule::kConvolution || rule == FlopRule::kConvolutionBackward;
      const bool rounded = convolves ? rounding.convolution : rounding.matmul;
      return rounded ? Arithmetic::kTensorFloat32 : Arithmetic::kFloat32;
    }
    default:
      return Arithmetic::kUnknown;
  }
}

}  // namespace

std::uint64_t addressed_bytes(const at::Tensor& tensor) {
  if (!tensor.has_storage()) return 0;
  std::uint64_t count = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) != 0 || tensor.size(i) == 0) {
      count *= static_cast<std::uint64_t>(tensor.size(i));
    }
  }
  return std::min<std::uint64_t>(count * tensor.itemsize(), tensor.storage().nbytes());
}

OpCost::OpCost(const RecordedOpFacts& facts, c10::ArrayRef<const c10::IValue> inputs,
               TensorFloat32Use rounding)
    : facts_(&facts), rounding_(rounding) {
  switch (facts.flop) {
    case FlopRule::kNone:
      break;
    case FlopRule::kMatmul:
      flop_ = matmul(tensor_at(inputs, 0), tensor_at(inputs, 1));
      break;
    case FlopRule::kAddedMatmul:
      flop_ = matmul(tensor_at(inputs, 1), tensor_at(inputs, 2));
      break;
    case FlopRule::kConvolution: {
      const at::Tensor* input = tensor_at(inputs, 0);
      const at::Tensor* weight = tensor_at(inputs, 1);
      if (input == nullptr || weight == nullptr) break;
      if (flag_at(inputs, 6)) {
        flop_ = convolution(*input, *weight) * positions(*input);
      } else {
        flop_per_output_position_ = convolution(*input, *weight);
      }
      break;
    }
    case FlopRule::kConvolutionBackward:
      flop_ = convolution_backward(inputs);
      break;
    case FlopRule::kAttention:
      flop_ = attention(tensor_at(inputs, 0), tensor_at(inputs, 1), tensor_at(inputs, 2), 1, 1);
      break;
    case FlopRule::kAttentionBackward:
      // Scores again, and the gradients of scores, values, queries and keys.
      flop_ = attention(tensor_at(inputs, 1), tensor_at(inputs, 2), tensor_at(inputs, 3), 3, 2);
      break;
  }
}

void OpCost::input(const at::Tensor& tensor, bool only_written) {
  if (facts_->flop != FlopRule::kNone && arithmetic_ == Arithmetic::kUnknown) {
    arithmetic_ = arithmetic_of(tensor.scalar_type(), facts_->flop, rounding_);
  }
  if (only_written) return;
  const std::uint64_t bytes = addressed_bytes(tensor);
  if (!any_input_) first_read_ = bytes;
  any_input_ = true;
  read_ += bytes;
}

void OpCost::output(const at::Tensor& tensor) {
  if (!any_output_ && flop_per_output_position_ != 0) {
    flop_ = flop_per_output_position_ * positions(tensor);
  }
  any_output_ = true;
  written_ += addressed_bytes(tensor);
}

std::optional<std::uint64_t> OpCost::flop() const {
  if (facts_ == nullptr || flop_ == 0) return {};
  return flop_;
}

std::uint64_t OpCost::bytes() const {
  if (facts_ == nullptr || facts_->uninitialized) return 0;
  if (!facts_->gathers) return read_ + written_;
  return read_ - first_read_ + std::min(first_read_, written_) + written_;
}

}  // namespace spillway::torch
