// SPDX-License-Identifier: Apache-2.0
// The two ops of a pair on a card: the same ops as on the processor (swap_ops.cpp), whose copies
// are made by the device context of the op.
//
// A token is in the machine's memory to the framework, which so never copies it. A swap-out has
// ended when its copy is on its way: the context orders the copy behind the op that makes the
// tensor, and the tensor is let go when the copy has ended. A swap-in is held back by an edge of
// the graph, takes memory of the card when it runs, and ends when the bytes are there, so that its
// users are launched after that. If its step fails meanwhile it ends at once, as cancelled; what it
// was copying goes on into memory that nobody sees.
//
// The first time that a swap-out copies, in the first step, its copies are checked; in fuzz and
// verify each time.
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "card_session.hpp"
#include "op_attributes.hpp"
#include "swap_kernel.hpp"
#include "swap_token.hpp"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace spillway::tf {
namespace {

using DoneCallback = ::tensorflow::AsyncOpKernel::DoneCallback;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;

CardLink link_of(OpKernelContext* context) {
  return CardLink::of(*context->op_device_context(),
                      static_cast<::tensorflow::Device&>(*context->device()));
}

class CardSwapOut : public SwapKernel<CardSession> {
 public:
  explicit CardSwapOut(OpKernelConstruction* construction)
      : SwapKernel(construction, CardSession::get()->swaps_block()),
        hole_(number_of(construction, "hole")),
        holes_(static_cast<std::uint32_t>(number_of(construction, "holes"))),
        made_by_(maker_of(construction, CardSession::get()->names())) {}

 private:
  void begin(OpKernelContext* context, bool /*holds*/, DoneCallback done) override {
    CardSession& session = *CardSession::get();
    const std::string reason = session.memory().meet(*context->device()->GetAllocator({}));
    if (!reason.empty()) {
      context->SetStatus(absl::FailedPreconditionError(reason));
      done();
      return;
    }
    const Tensor& input = context->input(0);
    const Bytes bytes{input.TotalBytes()};
    const bool copies = session.table().copies(hole_, bytes, context->step_id());
    if (!session.table().may_leave(bytes)) {
      pass(context, session, bytes);
      done();
      return;
    }
    const bool checked = session.table().always_copies() || (copies && first_.exchange(false));
    const auto waiting =
        session.waiting().add(std::make_unique<HeldCardTensor>(input, link_of(context), checked),
                              bytes, hole_, holes_, made_by_, context->step_id());
    context->set_output(0, tensor_over(new SwapToken(waiting, session.waiting()), input));
    if (!copies) {
      done();
    } else if (session.table().always_copies() || blocks()) {
      session.waiting().leave(waiting, std::move(done));
    } else {
      session.waiting().leave(waiting);
      done();
    }
  }

  // Its other holes run too, as far as the table knows.
  void pass(OpKernelContext* context, CardSession& session, Bytes bytes) const {
    for (std::uint32_t i = 1; i < holes_; ++i) {
      session.table().copies(hole_ + i, bytes, context->step_id());
    }
    context->set_output(0, context->input(0));
  }

  std::uint64_t hole_;
  std::uint32_t holes_;
  const char* made_by_;
  std::atomic<bool> first_{true};
};

// An op has one end: its copy's, or its step's.
class SoleEnd {
 public:
  bool take() { return !taken_.exchange(true); }

 private:
  std::atomic<bool> taken_{false};
};

class CardSwapIn : public SwapKernel<CardSession> {
 public:
  explicit CardSwapIn(OpKernelConstruction* construction)
      : SwapKernel(construction, CardSession::get()->swaps_block()),
        hole_(number_of(construction, "hole")) {}

 private:
  void begin(OpKernelContext* context, bool /*holds*/, DoneCallback done) override {
    const SwapToken* const token = SwapToken::in(context->input(0));
    if (token == nullptr) {
      context->set_output(0, context->input(0));
      done();
      return;
    }
    WaitingTensors& waiting = CardSession::get()->waiting();
    waiting.pass_over(token->waiting(), hole_);
    Taken taken = waiting.take(token->waiting());
    if (taken.held != nullptr) {
      context->set_output(0, static_cast<const HeldCardTensor&>(*taken.held).tensor());
      taken.held.reset();  // before a user of it begins, who may want to be the only one
      done();
      return;
    }
    bring_back(context, std::static_pointer_cast<CardCopy>(std::move(taken.copy)), done);
  }

  static void bring_back(OpKernelContext* context, std::shared_ptr<CardCopy> copy,
                         const DoneCallback& done) {
    const Tensor& token = context->input(0);
    // As any op's: it waits in the framework's allocator where copies are about to make room.
    Tensor place;
    const absl::Status status = context->allocate_temp(token.dtype(), token.shape(), &place);
    if (!status.ok()) {
      fail(context, std::string(status.message()));
      done();
      return;
    }
    // A step that is cancelled takes the context with it.
    const CardLink link = link_of(context);
    const auto end = std::make_shared<SoleEnd>();
    ::tensorflow::CancellationManager* const manager = context->cancellation_manager();
    const auto registration = manager == nullptr ? 0 : manager->get_cancellation_token();
    const auto cancel = [context, done, end] {
      if (!end->take()) return;
      context->SetStatus(absl::CancelledError("the step ended before a swap-in"));
      done();
    };
    if (manager != nullptr && !manager->RegisterCallback(registration, cancel)) {
      cancel();
      return;
    }
    CardSession::get()->copies().bring_back(
        std::move(copy), link, place,
        [context, done, end, place, link, manager,
         registration](const std::string& reason) mutable {
          if (!end->take()) return;  // context and manager may be gone
          if (manager != nullptr) manager->TryDeregisterCallback(registration);
          {
            const Tensor back = std::exchange(place, Tensor());  // not held while its users run
            finish(context, back, link, reason);
          }
          done();
        });
  }

  static void finish(OpKernelContext* context, const Tensor& place, const CardLink& link,
                     const std::string& reason) {
    if (!reason.empty()) {
      fail(context, reason);
      return;
    }
    context->set_output(0, place);
    CardSession::get()->waiting().came_back(SwapToken::in(context->input(0))->waiting(),
                                            std::make_unique<HeldCardTensor>(place, link, false));
  }

  static void fail(OpKernelContext* context, const std::string& reason) {
    CardSession::get()->troubles().note_failure(reason);
    context->SetStatus(absl::ResourceExhaustedError(not_brought_back(context->input(0), reason)));
  }

  std::uint64_t hole_;
};

REGISTER_KERNEL_BUILDER(Name("SpillwaySwapOut").Device(::tensorflow::DEVICE_GPU).HostMemory("y"),
                        CardSwapOut);
REGISTER_KERNEL_BUILDER(Name("SpillwaySwapIn").Device(::tensorflow::DEVICE_GPU).HostMemory("x"),
                        CardSwapIn);

}  // namespace
}  // namespace spillway::tf
