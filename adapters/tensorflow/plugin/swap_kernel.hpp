// SPDX-License-Identifier: Apache-2.0
// How the two kernels of a pair run: beside other ops, or holding their threads.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "spillway/base/ids.hpp"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/env.h"

namespace spillway::tf {

/// An asynchronous kernel, which holds its thread until it ends where the settings say so, and
/// where an executor of one thread calls it as if it were synchronous.
///
/// An executor that runs all kernels inline goes on in the thread that calls `done`. There `done`
/// gets a thread of its own: one that copies may not run ops, which wait for what only copies
/// bring, and in one that runs an op the rest of the step would be part of that.
///
/// `Owner` is the session whose kernels they are: get(), begins_to_block(), has_blocked().
template <typename Owner>
class SwapKernel : public ::tensorflow::AsyncOpKernel {
 public:
  SwapKernel(::tensorflow::OpKernelConstruction* construction, bool blocks)
      : AsyncOpKernel(construction), blocks_(blocks) {}
  bool IsExpensive() final { return false; }
  /// Null: the executor calls what is not asynchronous by Compute().
  ::tensorflow::AsyncOpKernel* AsAsync() final { return blocks_ ? nullptr : this; }

  void Compute(::tensorflow::OpKernelContext* context) final {
    const TimeNs begun = Owner::get()->begins_to_block();
    absl::Notification ended;
    begin(context, true, [&ended] { ended.Notify(); });
    ended.WaitForNotification();
    Owner::get()->has_blocked(begun);
  }

  void ComputeAsync(::tensorflow::OpKernelContext* context, DoneCallback done) final {
    if (!context->run_all_kernels_inline()) {
      begin(context, false, std::move(done));
      return;
    }
    const auto has_returned = std::make_shared<std::atomic<bool>>(false);
    begin(context, false,
          [has_returned, caller = std::this_thread::get_id(), done = std::move(done)] {
            if (caller == std::this_thread::get_id() && !has_returned->load()) {
              done();
            } else {
              ::tensorflow::Env::Default()->SchedClosure(done);
            }
          });
    has_returned->store(true);  // all else may be gone
  }

 protected:
  [[nodiscard]] bool blocks() const { return blocks_; }

 private:
  /// `holds`: the thread waits for `done`, and may be the only one.
  virtual void begin(::tensorflow::OpKernelContext* context, bool holds, DoneCallback done) = 0;

  const bool blocks_;
};

}  // namespace spillway::tf
