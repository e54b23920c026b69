// SPDX-License-Identifier: Apache-2.0
#include "watched_device.hpp"

#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "card_in_sight.hpp"
#include "op_names.hpp"
#include "rewrite.hpp"
#include "session.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/common_runtime/threadpool_device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/public/session_options.h"
#include "tensorflow/core/util/port.h"
#include "variable_ops.hpp"
#include "variables_in_use.hpp"

namespace spillway::tf {
namespace {

using runtime::now_ns;
using ::tensorflow::AsyncOpKernel;
using ::tensorflow::OpKernel;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

// Above the stock one's 60 and the 70 of the one that a build for cards has (gpu_device_factory.cc
// in tensorflow/core/common_runtime/gpu); not above a card, which programs without a device would
// else leave.
constexpr int kPriority = 75;
// Beside a card that other one stays: it lets tensors on their way to the card lie where copies are
// fast.
constexpr int kPriorityBesideCard = 65;
constexpr std::int64_t kMemoryLimit = 256 << 20;  // as the stock one says; nothing looks at it

SeenMemory memory_of(const Tensor& tensor) {
  auto* const buffer = const_cast<TensorBuffer*>(::tensorflow::DMAHelper::buffer(&tensor));
  if (buffer == nullptr) return {};
  TensorBuffer* const root = buffer->root_buffer();
  return {static_cast<const std::byte*>(root->data()), {root->size()}};
}

bool is_pure(const std::string& type) {
  static std::mutex mutex;
  static std::unordered_map<std::string, bool> known;
  const std::lock_guard lock(mutex);
  const auto [found, fresh] = known.try_emplace(type, false);
  if (fresh) {
    const ::tensorflow::OpDef* definition = nullptr;
    found->second = ::tensorflow::OpRegistry::Global()->LookUpOpDef(type, &definition).ok() &&
                    !definition->is_stateful();
  }
  return found->second;
}

// Ops on variables that change the memory they have; the others put other memory in its place.
bool changes_variable(std::string_view type) {
  return is_update_in_place(type) || type.starts_with("ResourceSparseApply") ||
         type.starts_with("ResourceScatter") || type == "ResourceStridedSliceAssign";
}

bool is_beside_card() {
  const bool for_cards = ::tensorflow::IsGoogleCudaEnabled() || ::tensorflow::IsBuiltWithROCm();
  return for_cards && card_in_sight(std::getenv("CUDA_VISIBLE_DEVICES"));
}

class WatchedDevice : public ::tensorflow::ThreadPoolDevice {
 public:
  WatchedDevice(const ::tensorflow::SessionOptions& options, const std::string& name,
                tsl::Allocator* allocator, OpWatcher* watcher)
      : ThreadPoolDevice(options, name, ::tensorflow::Bytes(kMemoryLimit), {}, allocator),
        watcher_(watcher) {}

  void Compute(OpKernel* kernel, OpKernelContext* context) override {
    const VariablesInUse variables(*kernel, *context);
    if (!variables.reason().empty()) {
      Session::get()->troubles().note_failure(variables.reason());
      context->SetStatus(absl::ResourceExhaustedError("Spillway could not reach a variable: " +
                                                      variables.reason()));
      return;
    }
    if (!begin(*kernel, *context)) {
      ThreadPoolDevice::Compute(kernel, context);
      return;
    }
    show_inputs(*kernel, *context);
    ThreadPoolDevice::Compute(kernel, context);
    std::vector<SeenMemory> outputs;
    for (int i = 0; i < context->num_outputs(); ++i) {
      const Tensor* const output = context->mutable_output(i);
      // A handle is no tensor of the program's.
      if (output == nullptr || output->dtype() == ::tensorflow::DT_RESOURCE) continue;
      outputs.push_back(memory_of(*output));
    }
    watcher_->end_op(outputs, now_ns());
  }

  // They end in other threads, or run other ops: only what comes from outside is told of them.
  void ComputeAsync(AsyncOpKernel* kernel, OpKernelContext* context,
                    AsyncOpKernel::DoneCallback done) override {
    if (!watches() || !kernel->type_string_view().starts_with("IteratorGetNext")) {
      ThreadPoolDevice::ComputeAsync(kernel, context, std::move(done));
      return;
    }
    ThreadPoolDevice::ComputeAsync(kernel, context, [this, context, done = std::move(done)] {
      for (int i = 0; i < context->num_outputs(); ++i) {
        const Tensor* const output = context->mutable_output(i);
        if (output != nullptr) watcher_->is_input(memory_of(*output));
      }
      done();
    });
  }

 private:
  [[nodiscard]] bool watches() const { return watcher_ != nullptr && watcher_->watches(); }

  // An op that runs by itself has no call frame: it is of no graph. Ticks are ours.
  bool begin(const OpKernel& kernel, const OpKernelContext& context) {
    if (!watches() || context.call_frame() == nullptr || kernel.type_string_view() == kTickOp) {
      return false;
    }
    return watcher_->begin_op({.step = context.step_id(),
                               .node = kernel.name_view(),
                               .type = kernel.type_string_view(),
                               .pure = is_pure(kernel.type_string())},
                              now_ns());
  }

  void show_inputs(const OpKernel& kernel, OpKernelContext& context) {
    for (int i = 0; i < context.num_inputs(); ++i) {
      if (!context.has_input(i)) continue;
      if (context.input_is_ref(i)) {
        watcher_->writes(memory_of(context.mutable_input(i, /*lock_held=*/false)));
      } else if (context.input_dtype(i) == ::tensorflow::DT_RESOURCE) {
        show_variable(kernel, context, i);
      } else {
        watcher_->reads(memory_of(context.input(i)));
      }
    }
  }

  void show_variable(const OpKernel& kernel, OpKernelContext& context, int index) {
    const ::tensorflow::Tensor& resource = context.input(index);
    if (resource.NumElements() != 1) return;  // several, such as stacked ones
    const auto& handle = resource.scalar<::tensorflow::ResourceHandle>()();
    ::tensorflow::core::RefCountPtr<::tensorflow::Var> variable;
    if (!::tensorflow::LookupResource(&context, handle, &variable).ok()) return;
    SeenMemory memory;
    {
      const ::tensorflow::tf_shared_lock lock(*variable->mu());
      memory = memory_of(*variable->tensor());
    }
    memory.name = variable_name(handle);
    const std::string_view type = kernel.type_string_view();
    if (changes_variable(type)) {
      watcher_->writes(memory);
    } else if (type != "AssignVariableOp") {
      watcher_->reads(memory);
    }
  }

  OpWatcher* const watcher_;
};

class WatchedDeviceFactory : public ::tensorflow::DeviceFactory {
 public:
  explicit WatchedDeviceFactory(OpWatcher* watcher) : watcher_(watcher) {}

  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    devices->push_back("/physical_device:CPU:0");
    return absl::OkStatus();
  }

  absl::Status CreateDevices(const ::tensorflow::SessionOptions& options,
                             const std::string& name_prefix,
                             std::vector<std::unique_ptr<::tensorflow::Device>>* devices) override {
    Session::get()->note_ops_known();
    const auto& counts = options.config.device_count();
    const auto asked = counts.find("CPU");
    const int count = asked == counts.end() ? 1 : asked->second;
    tsl::Allocator* const allocator =
        ::tensorflow::ProcessState::singleton()->GetCPUAllocator(tsl::port::kNUMANoAffinity);
    for (int i = 0; i < count; ++i) {
      devices->push_back(std::make_unique<WatchedDevice>(
          options, name_prefix + "/device:CPU:" + std::to_string(i), allocator, watcher_));
    }
    return absl::OkStatus();
  }

 private:
  OpWatcher* const watcher_;
};

}  // namespace

bool watch_devices(OpWatcher* watcher) {
  const bool beside_card = is_beside_card();
  ::tensorflow::DeviceFactory::Register("CPU", std::make_unique<WatchedDeviceFactory>(watcher),
                                        beside_card ? kPriorityBesideCard : kPriority,
                                        /*is_pluggable_device=*/false);
  return !beside_card;
}

}  // namespace spillway::tf
