// SPDX-License-Identifier: Apache-2.0
// The two ops of a pair, and what they hand to each other.
//
// A swap-out that copies puts out a token: a tensor of the same type and shape whose buffer is not
// its bytes but a copy in the store. Where the buffer's memory should be there is nothing, so that
// a use of a token as a tensor is a fault and not a wrong value. A swap-out that passes puts out
// its input. A swap-in looks at what it got, so that what the table says may change between the
// two, and no state is kept by step, frame or iteration.
//
// Both are stateful, or the framework would merge and fold them; both are asynchronous, so that no
// thread of the executor waits for a copy.
#include <sys/mman.h>

#include <atomic>
#include <memory>
#include <utility>

#include "session.hpp"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace spillway::tf {
namespace {

using ::tensorflow::AsyncOpKernel;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

// Addresses without memory, more than any tensor has.
void* nowhere() {
  constexpr std::size_t kBytes = std::size_t{1} << 40;
  static void* const address = [] {
    void* const range =
        ::mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? reinterpret_cast<void*>(4096) : range;
  }();
  return address;
}

class Token : public TensorBuffer {
 public:
  Token(std::shared_ptr<Copy> copy, std::uint64_t pair)
      : TensorBuffer(nowhere()), copy_(std::move(copy)), pair_(pair) {
    Session::get()->table().stored(pair_, copy_->bytes());
  }
  ~Token() override { Session::get()->table().dropped(pair_, copy_->bytes()); }

  size_t size() const override { return copy_->bytes().count; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(::tensorflow::AllocationDescription*) const override {}
  [[nodiscard]] const std::shared_ptr<Copy>& copy() const { return copy_; }

  static const Token* in(const Tensor& tensor) {
    auto* const buffer = const_cast<TensorBuffer*>(::tensorflow::DMAHelper::buffer(&tensor));
    return buffer == nullptr ? nullptr : dynamic_cast<const Token*>(buffer->root_buffer());
  }

 private:
  std::shared_ptr<Copy> copy_;
  std::uint64_t pair_;
};

// Bytes that came back, in memory of the budget.
class Restored : public TensorBuffer {
 public:
  Restored(std::byte* memory, std::size_t bytes) : TensorBuffer(memory), bytes_(bytes) {}
  ~Restored() override { Session::get()->memory().free(static_cast<std::byte*>(data())); }

  size_t size() const override { return bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(::tensorflow::AllocationDescription*) const override {}

 private:
  std::size_t bytes_;
};

// A tensor over the buffer, which then belongs to it.
Tensor tensor_over(TensorBuffer* buffer, const Tensor& like) {
  Tensor tensor(like.dtype(), like.shape(), buffer);
  buffer->Unref();
  return tensor;
}

std::uint64_t pair_of(OpKernelConstruction* construction) {
  int64_t pair = 0;
  const auto status = construction->GetAttr("pair", &pair);
  if (!status.ok()) construction->SetStatus(status);
  return static_cast<std::uint64_t>(pair);
}

// An op of this step got memory beyond the budget, where it could not be told that there is none.
bool fails_for_overshoot(OpKernelContext* context) {
  Session* const session = Session::get();
  const std::string reason = session == nullptr ? std::string() : session->take_overshoot();
  if (reason.empty()) return false;
  context->SetStatus(absl::ResourceExhaustedError(reason));
  return true;
}

class SwapOut : public AsyncOpKernel {
 public:
  explicit SwapOut(OpKernelConstruction* construction)
      : AsyncOpKernel(construction), pair_(pair_of(construction)) {}
  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    if (fails_for_overshoot(context)) {
      done();
      return;
    }
    const Tensor& input = context->input(0);
    const Bytes bytes{input.TotalBytes()};
    Session* const session = Session::get();
    if (session == nullptr || !session->table().copies(pair_, bytes)) {
      context->set_output(0, input);
      done();
      return;
    }
    session->store().swap_out(static_cast<const std::byte*>(input.data()), bytes,
                              [context, done = std::move(done), session, pair = pair_,
                               under_way = session->standstill().copy_under_way()](
                                  std::shared_ptr<Copy> copy, const std::string& reason) {
                                const Tensor& tensor = context->input(0);
                                if (copy != nullptr) {
                                  context->set_output(
                                      0, tensor_over(new Token(std::move(copy), pair), tensor));
                                } else {
                                  session->note_stays(reason);
                                  context->set_output(0, tensor);
                                }
                                done();
                              });
  }

 private:
  std::uint64_t pair_;
};

class SwapIn : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;
  bool IsExpensive() override { return false; }

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    if (fails_for_overshoot(context)) {
      done();
      return;
    }
    const Token* const token = Token::in(context->input(0));
    if (token == nullptr) {
      context->set_output(0, context->input(0));
      done();
      return;
    }
    // A step that failed elsewhere frees nothing any more that this one could wait for.
    const auto ticket = std::make_shared<std::atomic<SwapStore::Ticket>>(0);
    ::tensorflow::CancellationManager* const manager = context->cancellation_manager();
    const auto registration = manager == nullptr ? 0 : manager->get_cancellation_token();
    const auto cancel = [context, done, ticket] {
      const SwapStore::Ticket waiting = ticket->load();
      if (waiting == 0 || !Session::get()->store().cancel(waiting)) return;
      context->SetStatus(absl::CancelledError("the step ended before a swap-in"));
      done();
    };
    if (manager != nullptr && !manager->RegisterCallback(registration, cancel)) {
      context->SetStatus(absl::CancelledError("the step ended before a swap-in"));
      done();
      return;
    }
    ticket->store(
        Session::get()->store().swap_in(token->copy(), tsl::Allocator::kAllocatorAlignment,
                                        [context, done, manager, registration,
                                         under_way = Session::get()->standstill().copy_under_way()](
                                            std::byte* memory, const std::string& reason) {
                                          // A callback that runs now finds its ticket gone and
                                          // touches nothing.
                                          if (manager != nullptr)
                                            manager->TryDeregisterCallback(registration);
                                          end(context, memory, reason);
                                          done();
                                        }));
  }

 private:
  static void end(OpKernelContext* context, std::byte* memory, const std::string& reason) {
    const Tensor& token = context->input(0);
    if (memory != nullptr) {
      context->set_output(0, tensor_over(new Restored(memory, token.TotalBytes()), token));
      return;
    }
    Session::get()->note_failure(reason);
    context->SetStatus(
        absl::ResourceExhaustedError("Spillway could not bring a tensor back: " + reason));
  }
};

absl::Status same_shape(::tensorflow::shape_inference::InferenceContext* context) {
  context->set_output(0, context->input(0));
  return absl::OkStatus();
}

REGISTER_OP("SpillwaySwapOut")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("pair: int")
    .SetIsStateful()
    .SetShapeFn(same_shape);
REGISTER_OP("SpillwaySwapIn")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("pair: int")
    .SetIsStateful()
    .SetShapeFn(same_shape);
REGISTER_KERNEL_BUILDER(Name("SpillwaySwapOut").Device(::tensorflow::DEVICE_CPU), SwapOut);
REGISTER_KERNEL_BUILDER(Name("SpillwaySwapIn").Device(::tensorflow::DEVICE_CPU), SwapIn);

}  // namespace
}  // namespace spillway::tf
