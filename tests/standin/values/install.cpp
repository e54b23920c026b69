// SPDX-License-Identifier: Apache-2.0
// Puts kernels of ours in the place of aten's CUDA kernels, in this process, for good.
//
//     torch.ops.load_library(...); torch.ops.stand_in.install()
//
// Left as they are: what allocates, views and records, which launches nothing. Refused, by name:
// what has a kernel for cards alone.
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "values/boxed_kernel.hpp"
#include "values/op_shape.hpp"
#include "values/special_kernels.hpp"

namespace spillway::standin {

namespace {

constexpr std::string_view kAten = "aten::";
constexpr std::array<std::string_view, 15> kLaunchNothing = {"aten::empty",
                                                             "aten::set_",
                                                             "aten::resize",
                                                             "aten::_resize",
                                                             "aten::record_stream",
                                                             "aten::_local_scalar_dense",
                                                             "aten::is_pinned",
                                                             "aten::_pin_memory",
                                                             "aten::_efficientzerotensor",
                                                             "aten::is_set_to",
                                                             "aten::_has_same_storage_numel",
                                                             "aten::_nested",
                                                             "aten::_sparse",
                                                             "aten::_storage",
                                                             "aten::cudnn_is_acceptable"};

bool launches_nothing(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  const auto& results = op.schema().returns();
  return std::ranges::any_of(kLaunchNothing, [&](auto begin) { return name.starts_with(begin); }) ||
         std::ranges::any_of(results, [](const c10::Argument& result) {
           return result.alias_info() != nullptr && !result.alias_info()->isWrite();
         });
}

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the stand-in card has no values for ", OpShape(op).name);
}

/// PyTorch warns of each kernel that is replaced.
class Silence {
 public:
  Silence() : before_(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(&silent_);
  }
  ~Silence() { c10::WarningUtils::set_warning_handler(before_); }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  struct Silent final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Silent silent_;
  c10::WarningHandler* before_;
};

torch::CppFunction kernel_for(const c10::OperatorHandle& op) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return torch::CppFunction::makeFromBoxedFunction<&refuse>();
  }
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(op));
}

void install() {
  static torch::Library* library = nullptr;
  if (library != nullptr) return;
  const Silence silence;
  // Never destroyed: to take kernels out while the process ends would serve nobody.
  library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  add_special_kernels(*library);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  auto names = dispatcher.getAllOpNamesForDispatchKey(c10::DispatchKey::CUDA);
  // Composites that choose cuDNN for a tensor on a card.
  names.emplace_back("aten::convolution", "");
  names.emplace_back("aten::convolution_backward", "");
  for (const c10::OperatorName& name : names) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with(kAten) || launches_nothing(*op)) continue;
    const OpShape shape(*op);
    if (special_names().contains(shape.name)) continue;
    library->impl(shape.name.substr(kAten.size()).c_str(), kernel_for(*op));
  }
}

std::tuple<std::int64_t, std::int64_t> counted() { return {counts().enqueued, counts().awaited}; }

}  // namespace

TORCH_LIBRARY(stand_in, m) {
  m.def("install", install);
  m.def("counts", counted);
}

}  // namespace spillway::standin
