// SPDX-License-Identifier: Apache-2.0
// The two ops of a pair, and what they hand to each other.
//
// A swap-out puts out a token (swap_token.hpp), and a swap-in asks the token. So what the table
// says may change between the two, a tensor may leave at any time between them, and no state is
// kept by step, frame or iteration. What is too small to leave goes past all this.
//
// Where clocks trigger swap-ins, one waits for its attribute's time, or a later one that the table
// names; what it waits for are heavy ops of lower levels than its first user, none of which needs
// it. At an earlier time that the table names its bytes begin to come, and stay a victim until
// then.
//
// All are stateful, or the framework would merge and fold them; the two of a pair are
// asynchronous, so that no thread of the executor waits for a copy, but where the settings say so
// or where there is no other thread (swap_kernel.hpp). A swap-in that holds the only thread waits
// for no time, which none would bring.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "op_attributes.hpp"
#include "revocable_wait.hpp"
#include "session.hpp"
#include "swap_kernel.hpp"
#include "swap_token.hpp"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace spillway::tf {
namespace {

using DoneCallback = ::tensorflow::AsyncOpKernel::DoneCallback;
using ::tensorflow::OpKernelConstruction;
using ::tensorflow::OpKernelContext;
using ::tensorflow::Tensor;
using ::tensorflow::TensorBuffer;

SeenMemory memory_of(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data()), {tensor.TotalBytes()}};
}

// The framework's hold on a tensor.
class HeldTensor : public Held {
 public:
  explicit HeldTensor(const Tensor& tensor) : tensor_(tensor) {}
  [[nodiscard]] const std::byte* data() const override {
    return static_cast<const std::byte*>(tensor_.data());
  }
  [[nodiscard]] bool is_sole() const override {
    return tensor_.RefCountIsOne() && Session::get()->memory().owns(data());
  }
  [[nodiscard]] std::unique_ptr<Held> share() const override {
    return std::make_unique<HeldTensor>(tensor_);
  }
  [[nodiscard]] const Tensor& tensor() const { return tensor_; }

 private:
  Tensor tensor_;
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

const char* interned_maker(OpKernelConstruction* construction) {
  Session* const session = Session::get();
  return session == nullptr ? nullptr : maker_of(construction, session->names());
}

// An op of this step got memory beyond the budget, where it could not be told that there is none.
bool fails_for_overshoot(OpKernelContext* context) {
  Session* const session = Session::get();
  const std::string reason =
      session == nullptr ? std::string() : session->troubles().take_overshoot();
  if (reason.empty()) return false;
  context->SetStatus(absl::ResourceExhaustedError(reason));
  return true;
}

class SwapOut : public SwapKernel<Session> {
 public:
  explicit SwapOut(OpKernelConstruction* construction)
      : SwapKernel(construction, Session::get() != nullptr && Session::get()->swap_outs_block()),
        hole_(number_of(construction, "hole")),
        holes_(static_cast<std::uint32_t>(number_of(construction, "holes"))),
        made_by_(interned_maker(construction)) {}

 private:
  void begin(OpKernelContext* context, bool /*holds*/, DoneCallback done) override {
    if (fails_for_overshoot(context)) {
      done();
      return;
    }
    const Tensor& input = context->input(0);
    const Bytes bytes{input.TotalBytes()};
    Session* const session = Session::get();
    const bool copies =
        session != nullptr && session->table().copies(hole_, bytes, context->step_id());
    if (session == nullptr || !session->table().may_leave(bytes)) {
      // Its other holes run too, as far as the table knows.
      for (std::uint32_t i = 1; session != nullptr && i < holes_; ++i) {
        session->table().copies(hole_ + i, bytes, context->step_id());
      }
      context->set_output(0, input);
      done();
      return;
    }
    if (session->profiler() != nullptr && !session->table().is_small(bytes)) {
      session->profiler()->came(hole_, memory_of(input));
    }
    const auto waiting = session->waiting().add(std::make_unique<HeldTensor>(input), bytes, hole_,
                                                holes_, made_by_, context->step_id());
    context->set_output(0, tensor_over(new SwapToken(waiting, session->waiting()), input));
    if (!copies) {
      done();
    } else if (session->table().always_copies() || blocks()) {
      // In fuzz a copy that is not made in time would else be taken back.
      session->waiting().leave(waiting, std::move(done));
    } else {
      session->waiting().leave(waiting);
      done();
    }
  }

  std::uint64_t hole_;
  std::uint32_t holes_;
  const char* made_by_;
};

ClockRun clock_run(const OpKernelContext& context, std::uint64_t clock) {
  return {.step = context.step_id(),
          .frame = context.frame_iter().frame_id,
          .iteration = context.frame_iter().iter_id,
          .clock = clock};
}

// A heavy op is done, and all before it.
class Tick : public ::tensorflow::OpKernel {
 public:
  explicit Tick(OpKernelConstruction* construction)
      : OpKernel(construction),
        clock_(number_of(construction, "clock")),
        time_(number_of(construction, "time")) {}
  bool IsExpensive() override { return false; }

  void Compute(OpKernelContext* context) override {
    Session* const session = Session::get();
    if (session != nullptr) session->clock().tick(clock_run(*context, clock_), time_);
  }

 private:
  std::uint64_t clock_;
  std::uint64_t time_;
};

class SwapIn : public SwapKernel<Session> {
 public:
  explicit SwapIn(OpKernelConstruction* construction)
      : SwapKernel(construction, Session::get() != nullptr && Session::get()->swap_ins_block()),
        hole_(number_of(construction, "hole")),
        clock_(number_of(construction, "clock")),
        due_(number_of(construction, "due")),
        latest_(number_of(construction, "latest")) {}

 private:
  void begin(OpKernelContext* context, bool holds, DoneCallback done) override {
    if (fails_for_overshoot(context)) {
      done();
      return;
    }
    const SwapToken* const token = SwapToken::in(context->input(0));
    if (token == nullptr) {
      context->set_output(0, context->input(0));
      done();
      return;
    }
    if (latest_ == 0 || holds) {
      take(context, *token, done);
    } else {
      wait_until_due(context, *token, done);
    }
  }

  void wait_until_due(OpKernelContext* context, const SwapToken& token, const DoneCallback& done) {
    const std::uint64_t due = Session::get()->table().decide_due(hole_).value_or(due_);
    if (due >= due_) {
      take_at(std::min(due, latest_), context, token, done);
      return;
    }
    wait_for_clock(context, due, [this, context, &token, done](bool ended) {
      if (ended) {
        end_cancelled(context, done);
        return;
      }
      bring_ahead(context->input(0), token.waiting());
      take_at(due_, context, token, done);
    });
  }

  void take_at(std::uint64_t time, OpKernelContext* context, const SwapToken& token,
               const DoneCallback& done) const {
    wait_for_clock(context, time, [this, context, &token, done](bool ended) {
      if (ended) {
        end_cancelled(context, done);
      } else {
        take(context, token, done);
      }
    });
  }

  // The step may end while the bytes are on their way, and this kernel with it.
  void bring_ahead(const Tensor& token, const std::shared_ptr<WaitingTensor>& waiting) const {
    WaitingTensors& all = Session::get()->waiting();
    const auto wait = std::make_shared<RevocableWait>(
        [](SwapStore::Ticket ticket) { return Session::get()->store().cancel_in(ticket); });
    std::shared_ptr<Copy> copy = all.begin_ahead(waiting, hole_, wait);
    if (copy == nullptr) return;
    const SwapStore::Ticket ticket = Session::get()->store().swap_in(
        std::move(copy), tsl::Allocator::kAllocatorAlignment,
        [&all, waiting, hole = hole_, type = token.dtype(), shape = token.shape()](
            std::byte* memory, const std::string& /*reason*/) {
          std::unique_ptr<Held> held;
          if (memory != nullptr) {
            auto* const bytes = new Restored(memory, waiting->bytes().count);
            const Tensor tensor = tensor_over(bytes, type, shape);
            note_back(hole, tensor);
            held = std::make_unique<HeldTensor>(tensor);
          }
          all.came_ahead(waiting, std::move(held));
        },
        Urgency::kAhead);
    if (wait->know(ticket)) all.came_ahead(waiting, nullptr);
  }

  // A step that fails elsewhere never comes to the time.
  void wait_for_clock(OpKernelContext* context, std::uint64_t time,
                      const std::function<void(bool ended)>& go_on) const {
    SwapClock& clock = Session::get()->clock();
    ::tensorflow::CancellationManager* const manager = context->cancellation_manager();
    const auto registration = manager == nullptr ? 0 : manager->get_cancellation_token();
    const auto wait = std::make_shared<RevocableWait>(
        [&clock](SwapClock::Ticket ticket) { return clock.cancel(ticket); });
    const auto cancel = [wait, go_on] {
      if (wait->revoke()) go_on(true);
    };
    if (manager != nullptr && !manager->RegisterCallback(registration, cancel)) {
      go_on(true);
      return;
    }
    const SwapClock::Ticket ticket =
        clock.wait_until(clock_run(*context, clock_), time, [manager, registration, go_on] {
          if (manager != nullptr) manager->TryDeregisterCallback(registration);
          go_on(false);
        });
    // From here on the step may have ended, and its manager be gone.
    if (wait->know(ticket)) go_on(true);
  }

  void take(OpKernelContext* context, const SwapToken& token, const DoneCallback& done) const {
    WaitingTensors& waiting = Session::get()->waiting();
    waiting.pass_over(token.waiting(), hole_);
    Taken taken = waiting.take(token.waiting(),
                               [this, context, &token, done] { take(context, token, done); });
    if (taken.held == nullptr && taken.copy == nullptr) return;
    if (taken.held != nullptr) {
      const Tensor& tensor = static_cast<const HeldTensor&>(*taken.held).tensor();
      note_back(hole_, tensor);
      context->set_output(0, tensor);
      taken.held.reset();  // before a user of it begins, who may want to be the only one
      done();
      return;
    }
    bring_back(context, std::move(taken.copy), done);
  }

  static void note_back(std::uint64_t hole, const Tensor& tensor) {
    RunProfiler* const profiler = Session::get()->profiler();
    const SeenMemory memory = memory_of(tensor);
    if (profiler != nullptr && !Session::get()->table().is_small(memory.bytes)) {
      profiler->came_back(hole, memory);
    }
  }

  static void end_cancelled(OpKernelContext* context, const DoneCallback& done) {
    context->SetStatus(absl::CancelledError("the step ended before a swap-in"));
    done();
  }

  void bring_back(OpKernelContext* context, std::shared_ptr<Copy> copy,
                  const DoneCallback& done) const {
    // A step that failed elsewhere frees nothing any more that this one could wait for.
    const auto wait = std::make_shared<RevocableWait>(
        [](SwapStore::Ticket ticket) { return Session::get()->store().cancel_in(ticket); });
    ::tensorflow::CancellationManager* const manager = context->cancellation_manager();
    const auto registration = manager == nullptr ? 0 : manager->get_cancellation_token();
    const auto cancel = [context, done, wait] {
      if (wait->revoke()) end_cancelled(context, done);
    };
    if (manager != nullptr && !manager->RegisterCallback(registration, cancel)) {
      end_cancelled(context, done);
      return;
    }
    const SwapStore::Ticket ticket =
        Session::get()->store().swap_in(std::move(copy), tsl::Allocator::kAllocatorAlignment,
                                        [this, context, done, manager, registration,
                                         under_way = Session::get()->standstill().copy_under_way()](
                                            std::byte* memory, const std::string& reason) {
                                          // A callback that runs now finds its wait gone and
                                          // touches nothing.
                                          if (manager != nullptr)
                                            manager->TryDeregisterCallback(registration);
                                          end(context, memory, reason);
                                          done();
                                        });
    if (wait->know(ticket)) end_cancelled(context, done);
  }

  void end(OpKernelContext* context, std::byte* memory, const std::string& reason) const {
    const Tensor& token = context->input(0);
    if (memory != nullptr) {
      const Tensor tensor = tensor_over(new Restored(memory, token.TotalBytes()), token);
      note_back(hole_, tensor);
      context->set_output(0, tensor);
      Session::get()->waiting().came_back(SwapToken::in(token)->waiting(),
                                          std::make_unique<HeldTensor>(tensor));
      return;
    }
    Session::get()->troubles().note_failure(reason);
    context->SetStatus(absl::ResourceExhaustedError(not_brought_back(token, reason)));
  }

  std::uint64_t hole_;
  std::uint64_t clock_;
  std::uint64_t due_;
  std::uint64_t latest_;
};

absl::Status same_shape(::tensorflow::shape_inference::InferenceContext* context) {
  context->set_output(0, context->input(0));
  return absl::OkStatus();
}

REGISTER_OP("SpillwaySwapOut")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("hole: int")
    .Attr("holes: int")
    .Attr("made_by: string")
    .SetIsStateful()
    .SetShapeFn(same_shape);
REGISTER_OP("SpillwaySwapIn")
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Attr("hole: int")
    .Attr("clock: int")
    .Attr("due: int")
    .Attr("latest: int")
    .SetIsStateful()
    .SetShapeFn(same_shape);
REGISTER_OP("SpillwayTick").Attr("clock: int").Attr("time: int").SetIsStateful();
REGISTER_KERNEL_BUILDER(Name("SpillwayTick").Device(::tensorflow::DEVICE_CPU), Tick);
REGISTER_KERNEL_BUILDER(Name("SpillwaySwapOut").Device(::tensorflow::DEVICE_CPU), SwapOut);
REGISTER_KERNEL_BUILDER(Name("SpillwaySwapIn").Device(::tensorflow::DEVICE_CPU), SwapIn);

}  // namespace
}  // namespace spillway::tf
