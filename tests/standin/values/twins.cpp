// SPDX-License-Identifier: Apache-2.0
#include "values/twins.hpp"

#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "values/stand_in.hpp"

namespace spillway::standin {

namespace {

bool is_scalar_of_host(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.dim() == 0; }

/// Tensors of the host that a launch was given as numbers may change before the work is done. The
/// work may also outlive the program's own: its last reference is then let go by a thread that
/// would wait for Python, which waits for the work.
at::Tensor of_host(const at::Tensor& tensor) {
  at::Tensor copy = tensor.clone();
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return copy;
}

}  // namespace

at::Tensor Twins::tensor(const at::Tensor& original) {
  if (!original.defined()) return original;
  if (is_scalar_of_host(original)) return of_ == c10::kCPU ? of_host(original) : original;
  at::Tensor& known = known_[original.unsafeGetTensorImpl()];
  if (!known.defined()) known = make(original);
  return known;
}

at::Tensor Twins::make(const at::Tensor& original) {
  if (of_ == c10::kCPU && !original.is_cuda()) return of_host(original);
  const auto key = of_ == c10::kCPU ? c10::DispatchKey::CPU : c10::DispatchKey::Meta;
  void* memory = nullptr;
  if (of_ == c10::kCPU && original.numel() != 0) {
    memory = static_cast<std::byte*>(original.storage().mutable_data()) + functions().distance();
    reach(original);
  }
  c10::Storage storage(c10::Storage::use_byte_size_t(), original.storage().nbytes(),
                       c10::DataPtr(memory, of_), nullptr, false);
  at::Tensor twin = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(key), original.dtype());
  c10::TensorImpl& facts = *twin.unsafeGetTensorImpl();
  facts.set_sizes_and_strides(original.sizes(), original.strides(), original.storage_offset());
  if (original.unsafeGetTensorImpl()->is_wrapped_number()) facts.set_wrapped_number(true);
  if (original.is_conj()) twin._set_conj(true);
  if (original.is_neg()) twin._set_neg(true);
  return twin;
}

void Twins::reach(const at::Tensor& original) {
  std::int64_t elements = 1;
  for (std::int64_t axis = 0; axis < original.dim(); ++axis) {
    elements += (original.size(axis) - 1) * original.stride(axis);
  }
  const auto size = static_cast<std::int64_t>(original.itemsize());
  const auto* const memory = static_cast<const std::byte*>(original.storage().data());
  reached_.push_back(
      {memory + original.storage_offset() * size, static_cast<std::size_t>(elements * size)});
}

c10::IValue Twins::value(const c10::IValue& original) {
  if (original.isTensor()) return tensor(original.toTensor());
  if (original.isDevice()) {
    return original.toDevice().is_cuda() ? c10::IValue(c10::Device(of_)) : original;
  }
  if (!original.isList()) return original;
  bool has_tensors = false;
  c10::List<std::optional<at::Tensor>> some;
  c10::List<at::Tensor> all;
  for (const c10::IValue& item : original.toListRef()) {
    has_tensors |= item.isTensor();
    const at::Tensor twin = item.isTensor() ? tensor(item.toTensor()) : at::Tensor();
    some.push_back(twin.defined() ? std::optional(twin) : std::nullopt);
    all.push_back(twin);
  }
  if (original.isOptionalTensorList()) return some;
  if (original.isTensorList()) return all;
  return has_tensors ? c10::IValue(some) : original;
}

torch::jit::Stack Twins::values(const torch::jit::Stack& originals) {
  torch::jit::Stack twins;
  twins.reserve(originals.size());
  for (const c10::IValue& original : originals) twins.push_back(value(original));
  return twins;
}

at::Tensor made_on_card(const at::Tensor& meta) {
  if (!meta.defined()) return meta;
  return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(c10::kCUDA));
}

}  // namespace spillway::standin
