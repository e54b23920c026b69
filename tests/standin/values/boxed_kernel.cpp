// SPDX-License-Identifier: Apache-2.0
#include "values/boxed_kernel.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "values/chance.hpp"
#include "values/stand_in.hpp"
#include "values/twins.hpp"

namespace spillway::standin {

namespace {

using torch::jit::Stack;

std::atomic<std::int64_t> enqueued{0};
std::atomic<std::int64_t> awaited{0};

/// What they keep for their backward pass is shaped otherwise by the processor's kernels.
constexpr std::array<std::string_view, 2> kShapedByTheProcessor = {
    "aten::_embedding_bag", "aten::_embedding_bag_forward_only"};

std::int64_t elements_of_first(const Stack& arguments) {
  const auto found = std::ranges::find_if(
      arguments, [](const c10::IValue& v) { return v.isTensor() && v.toTensor().defined(); });
  return found == arguments.end() ? 1 : found->toTensor().numel();
}

std::vector<at::Tensor> tensors_in(const Stack& values) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& value : values) {
    if (value.isTensor()) found.push_back(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) found.push_back(tensor);
    }
  }
  return found;
}

void copy_results(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  TORCH_CHECK(to.size() == from.size(), "meta tensors and the processor disagree: ", to.size(),
              " results and ", from.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (!to[i].defined() && !from[i].defined()) continue;
    TORCH_CHECK(to[i].defined() && from[i].defined() && to[i].sizes() == from[i].sizes() &&
                    to[i].dtype() == from[i].dtype(),
                "meta tensors and the processor disagree about result ", i);
    to[i].copy_(from[i]);
  }
}

void resize_as(const at::Tensor& out, const at::Tensor& meta) {
  if (out.sizes() == meta.sizes()) return;
  out.resize_(meta.sizes());
  if (out.strides() != meta.strides()) out.as_strided_(meta.sizes(), meta.strides());
}

/// Batch norm's processor kernels save statistics in the weight's type, and none in evaluation;
/// meta tensors tell what CUDA's do.
void correct_statistics(const std::string& name, const Stack& arguments, Stack& results) {
  const bool plain = name == "aten::native_batch_norm";
  if (!plain && name != "aten::_native_batch_norm_legit") return;
  for (const std::size_t i : {1U, 2U}) {
    const at::Tensor saved = results[i].toTensor();
    if (!arguments[5].toBool()) {
      results[i] = saved.new_empty({0});
    } else if (plain && arguments[1].isTensor() && arguments[1].toTensor().defined()) {
      results[i] = saved.to(arguments[1].toTensor().scalar_type());
    }
  }
}

Stack run_on_processor(const c10::OperatorHandle& op, Stack arguments) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &arguments);
  return arguments;
}

/// Each tensor in it made on the card.
c10::IValue made(const c10::IValue& meta) {
  if (meta.isTensor()) return made_on_card(meta.toTensor());
  if (!meta.isTensorList()) return meta;
  c10::List<at::Tensor> all;
  for (const at::Tensor& tensor : meta.toTensorVector()) all.push_back(made_on_card(tensor));
  return all;
}

}  // namespace

Counts counts() { return {enqueued.load(), awaited.load()}; }

Stack BoxedKernel::arguments_of(const Stack& stack) const {
  const auto count = static_cast<std::ptrdiff_t>(shape_.is_out.size());
  Stack arguments(stack.end() - count, stack.end());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!shape_.is_generator[i]) continue;
    arguments[i] =
        generator_for(arguments[i].toOptional<at::Generator>(), elements_of_first(arguments));
  }
  return arguments;
}

Stack BoxedKernel::new_ones(const Stack& results) const {
  Stack fresh;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!shape_.is_argument[i]) fresh.push_back(results[i]);
  }
  return fresh;
}

std::optional<Stack> BoxedKernel::foresee(const c10::OperatorHandle& op, const Stack& arguments) {
  if (!shape_.makes_tensors && !shape_.makes_numbers && !shape_.has_outs) return Stack();
  if (shape_.makes_numbers || is_unforeseeable_.load() ||
      std::ranges::find(kShapedByTheProcessor, shape_.name) != kShapedByTheProcessor.end()) {
    return std::nullopt;
  }
  Stack values;
  Stack results;
  try {
    const Unseen unseen;
    values = Twins(c10::kMeta).values(arguments);
    results = values;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &results);
    correct_statistics(shape_.name, arguments, results);
  } catch (const std::exception& error) {
    // Otherwise it is these arguments: the processor's kernel will say so, or do what they ask.
    if (std::string_view(error.what()).find("Could not run") != std::string_view::npos) {
      is_unforeseeable_.store(true);
    }
    return std::nullopt;
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (shape_.is_out[i] && arguments[i].isTensor()) {
      resize_as(arguments[i].toTensor(), values[i].toTensor());
    }
  }
  return new_ones(results);
}

Stack BoxedKernel::launch(const c10::OperatorHandle& op, const Stack& arguments,
                          const Stack& foreseen) const {
  enqueued.fetch_add(1);
  Stack results;
  for (const c10::IValue& meta : foreseen) results.push_back(made(meta));
  Twins twins(c10::kCPU);
  Stack given;
  Stack targets;
  {
    const Unseen unseen;
    given = twins.values(arguments);
    targets = twins.values(results);
  }
  enqueue(shape_.name, twins.reached(),
          [this, op, given = std::move(given), targets = tensors_in(targets)] {
            copy_results(targets, tensors_in(new_ones(run_on_processor(op, given))));
          });
  return results;
}

Stack BoxedKernel::run_at_once(const c10::OperatorHandle& op, const Stack& arguments) const {
  awaited.fetch_add(1);
  Twins twins(c10::kCPU);
  Stack given;
  {
    const Unseen unseen;
    given = twins.values(arguments);
    for (std::size_t i = 0; i < given.size(); ++i) {  // outs may have another size afterwards
      if (shape_.is_out[i] && given[i].isTensor()) {
        given[i] = at::Tensor(given[i].toTensor().new_empty({0}));
      }
    }
  }
  Stack found;
  run_and_wait(shape_.name, twins.reached(), [&] { found = run_on_processor(op, given); });
  Stack fresh = new_ones(found);
  Stack results;
  for (const c10::IValue& value : fresh) results.push_back(made(value));
  std::vector<at::Tensor> from = tensors_in(fresh);
  std::vector<at::Tensor> to = tensors_in(results);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!shape_.is_out[i] || !given[i].isTensor()) continue;
    resize_as(arguments[i].toTensor(), given[i].toTensor());
    from.push_back(given[i].toTensor());
    to.push_back(arguments[i].toTensor());
  }
  Twins targets(c10::kCPU);
  for (at::Tensor& tensor : to) tensor = targets.tensor(tensor);
  run_and_wait(shape_.name, targets.reached(), [&] { copy_results(to, from); });
  return results;
}

void BoxedKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                             torch::jit::Stack* stack) {
  const Stack arguments = arguments_of(*stack);
  const std::optional<Stack> foreseen = foresee(op, arguments);
  Stack fresh = foreseen ? launch(op, arguments, *foreseen) : run_at_once(op, arguments);
  stack->resize(stack->size() - arguments.size());
  auto next = fresh.begin();
  for (const std::optional<std::size_t>& argument : shape_.is_argument) {
    stack->push_back(argument ? arguments[*argument] : std::move(*next++));
  }
}

}  // namespace spillway::standin
