// SPDX-License-Identifier: Apache-2.0
#include "values/special_kernels.hpp"

#include <ATen/ATen.h>
#include <ATen/ops/copy_native.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "values/chance.hpp"
#include "values/stand_in.hpp"
#include "values/twins.hpp"

namespace spillway::standin {

namespace {

using at::Tensor;
using MaybeTensor = const std::optional<Tensor>&;

bool is_there(MaybeTensor tensor) { return tensor && tensor->defined(); }

/// Whether it is one copy of bytes.
bool is_plain(const Tensor& to, const Tensor& from) {
  return to.dtype() == from.dtype() && to.is_contiguous() && from.is_contiguous() &&
         to.is_conj() == from.is_conj() && to.is_neg() == from.is_neg();
}

/// By a kernel of the source's card.
void copy_on_card(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0) return;
  const c10::DeviceGuard guard(from.device());
  Twins twins(c10::kCPU);
  const Tensor target = twins.tensor(to);
  const Tensor source = twins.tensor(from);
  enqueue("aten::copy_", twins.reached(), [=] { target.copy_(source); });
}

/// As PyTorch does it: by a kernel of the source's card where that reaches the other's memory,
/// which PyTorch asks for with its first copy; else through contiguous memory of both cards.
void copy_to_other_card(const Tensor& to, const Tensor& from, bool non_blocking) {
  if (cards_are_peers()) {
    Tensor first = at::empty({1}, to.options());
    at::native::copy_(first, at::empty({1}, from.options().dtype(to.dtype())), false);
    copy_on_card(to, from);
    const c10::impl::VirtualGuardImpl card(c10::kCUDA);
    c10::Event done(c10::kCUDA);
    done.record(card.getStream(from.device()));
    done.block(card.getStream(to.device()));
    return;
  }
  Tensor there = at::empty(to.sizes(), to.options().dtype(from.dtype()));
  at::native::copy_(there, from.contiguous(), non_blocking);
  copy_on_card(to, there);
}

/// Bytes go by PyTorch's own code and the driver. What is converted or gathered is so by an op on
/// the card, or on the host, as PyTorch does it.
Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  const Tensor from = source.expand_as(self);
  if (is_plain(self, from)) {
    at::native::copy_(self, from, non_blocking);
  } else if (self.is_cuda() && from.is_cuda() && self.device() != from.device()) {
    copy_to_other_card(self, from, non_blocking);
  } else if (self.is_cuda() && from.is_cuda()) {
    copy_on_card(self, from);
  } else if (self.is_cuda()) {
    const Tensor there = at::empty(self.sizes(), self.options().device(c10::kCPU));
    there.copy_(from);
    Tensor here = at::empty(self.sizes(), self.options());
    at::native::copy_(here, there, false);
    copy_on_card(self, here);
  } else {
    const Tensor there = at::empty(self.sizes(), from.options().dtype(self.dtype()));
    copy_on_card(there, from);
    Tensor here = at::empty(self.sizes(), self.options());
    at::native::copy_(here, there, false);
    self.copy_(here);
  }
  return self;
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p,
                                          std::optional<bool> train) {
  Tensor output = at::empty_like(input);
  Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  const bool drops = train.value_or(true);
  const at::Generator chance = generator_for(std::nullopt, drops ? input.numel() : 0);
  Twins twins(c10::kCPU);
  const Tensor from = twins.tensor(input);
  const Tensor to = twins.tensor(output);
  const Tensor kept = twins.tensor(mask);
  enqueue("aten::native_dropout", twins.reached(), [=] {
    if (!drops) {
      to.copy_(from);
      kept.fill_(true);
      return;
    }
    const Tensor chosen = at::empty_like(from).bernoulli_(1 - p, chance);
    kept.copy_(chosen);
    to.copy_(from.mul(chosen).mul_(p == 1 ? 0 : 1 / (1 - p)));
  });
  return {output, mask};
}

// In the order of the gates that the processor's cell has: in, forget, cell, out.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cell, MaybeTensor input_bias,
                                             MaybeTensor hidden_bias) {
  const Tensor given = is_there(input_bias) ? input_gates + *input_bias : input_gates;
  const Tensor kept = is_there(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates;
  const Tensor workspace = kept + given;
  const std::vector<Tensor> gates = workspace.unsafe_chunk(4, 1);
  for (const std::size_t sigmoid : {0U, 1U, 3U}) gates[sigmoid].sigmoid_();
  gates[2].tanh_();
  const Tensor next = (gates[1] * cell).add_(gates[0] * gates[2]);
  return {gates[3] * next.tanh(), next, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(MaybeTensor grad_hidden,
                                                      MaybeTensor grad_cell, const Tensor& cell,
                                                      const Tensor& next, const Tensor& workspace,
                                                      bool has_bias) {
  if (!is_there(grad_hidden) && !is_there(grad_cell)) return {};
  const std::vector<Tensor> gates = workspace.unsafe_chunk(4, 1);
  const Tensor shown = next.tanh();
  const Tensor hidden = is_there(grad_hidden) ? *grad_hidden : at::zeros_like(next);
  const Tensor out = at::sigmoid_backward(hidden * shown, gates[3]);
  Tensor inner = at::tanh_backward(hidden * gates[3], shown);
  if (is_there(grad_cell)) inner = inner + *grad_cell;
  const Tensor grad = at::cat({at::sigmoid_backward(inner * gates[2], gates[0]),
                               at::sigmoid_backward(inner * cell, gates[1]),
                               at::tanh_backward(inner * gates[0], gates[2]), out},
                              1);
  return {grad, inner * gates[1], has_bias ? grad.sum(0, false) : Tensor()};
}

// The gates are reset, input and new; the workspace keeps them, the old state and the new gate's
// part of it, which is what the backward pass asks for.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hidden, MaybeTensor input_bias,
                                    MaybeTensor hidden_bias) {
  const Tensor given = is_there(input_bias) ? input_gates + *input_bias : input_gates;
  const Tensor kept = is_there(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates;
  const std::vector<Tensor> in = given.unsafe_chunk(3, 1);
  const std::vector<Tensor> old = kept.unsafe_chunk(3, 1);
  const Tensor reset = (in[0] + old[0]).sigmoid_();
  const Tensor input = (in[1] + old[1]).sigmoid_();
  const Tensor fresh = (in[2] + reset * old[2]).tanh_();
  const Tensor next = (hidden - fresh).mul_(input).add_(fresh);
  return {next, at::cat({reset, input, fresh, hidden, old[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const std::vector<Tensor> kept = workspace.unsafe_chunk(5, 1);
  const Tensor& reset = kept[0];
  const Tensor& input = kept[1];
  const Tensor& fresh = kept[2];
  const Tensor on_input = at::sigmoid_backward(grad * (kept[3] - fresh), input);
  const Tensor on_fresh = at::tanh_backward(grad * (1 - input), fresh);
  const Tensor on_reset = at::sigmoid_backward(on_fresh * kept[4], reset);
  const Tensor of_input = at::cat({on_reset, on_input, on_fresh}, 1);
  const Tensor of_hidden = at::cat({on_reset, on_input, on_fresh * reset}, 1);
  return {of_input, of_hidden, grad * input, has_bias ? of_input.sum(0, false) : Tensor(),
          has_bias ? of_hidden.sum(0, false) : Tensor()};
}

/// Whether another library than PyTorch shall calculate a CTC loss.
template <class Lengths>
bool is_left_to_library(const Tensor&, const Tensor&, Lengths, Lengths, std::int64_t) {
  return false;
}

}  // namespace

const std::set<std::string>& special_names() {
  static const std::set<std::string> names = {"aten::copy_",
                                              "aten::native_dropout",
                                              "aten::_use_cudnn_ctc_loss",
                                              "aten::_use_cudnn_ctc_loss.Tensor",
                                              "aten::_use_miopen_ctc_loss",
                                              "aten::_use_miopen_ctc_loss.Tensor",
                                              "aten::_thnn_fused_lstm_cell",
                                              "aten::_thnn_fused_lstm_cell_backward_impl",
                                              "aten::_thnn_fused_gru_cell",
                                              "aten::_thnn_fused_gru_cell_backward"};
  return names;
}

void add_special_kernels(torch::Library& library) {
  library.impl("copy_", TORCH_FN(copy));
  library.impl("native_dropout", TORCH_FN(native_dropout));
  for (const char* const asked : {"_use_cudnn_ctc_loss", "_use_miopen_ctc_loss"}) {
    library.impl(asked, TORCH_FN(is_left_to_library<at::IntArrayRef>));
    library.impl((std::string(asked) + ".Tensor").c_str(),
                 TORCH_FN(is_left_to_library<const Tensor&>));
  }
  library.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm_cell));
  library.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_cell_backward));
  library.impl("_thnn_fused_gru_cell", TORCH_FN(gru_cell));
  library.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_cell_backward));
}

}  // namespace spillway::standin
