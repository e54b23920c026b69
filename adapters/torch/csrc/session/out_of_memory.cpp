// SPDX-License-Identifier: Apache-2.0
// How a shortage that was found before an op arrives as torch.OutOfMemoryError.
//
// The hook may not throw. It leaves the text for the op's first allocation, which may. An op that
// allocates nothing meets the refused storage instead, whose accessors throw a plain c10::Error
// with our text: a RuntimeError in Python. Every c10::Error fetches a stack trace as it is made, by
// a function that can be set. Ours throws the right error from there while one is pending.
//
//     _fused_adamw_   |-- found short ---------------------- reads what was refused: raised --|
//       item                         |--------|
//
// An op may call others before it meets what was refused to it: what is pending is the op's until
// that op ends, whatever ends within it.
#include <c10/util/Logging.h>

#include <algorithm>
#include <string>
#include <utility>

#include "session/watch.hpp"
#include "spillway/runtime/exec/frames.hpp"

namespace spillway::torch {

namespace {

struct PendingFailure {
  std::string text;
  runtime::FailureKind kind = runtime::FailureKind::kShortage;
  std::uint32_t depth = 0;  // of the frame that it was found in, from 1
};
thread_local PendingFailure t_pending_failure;

}  // namespace

void set_pending_failure(const std::string& text, runtime::FailureKind kind) {
  // A failure found as a frame ended belongs to the next one.
  std::uint32_t depth = std::max(runtime::this_thread_frames().depth, 1U);
  if (has_pending_failure()) depth = std::min(depth, t_pending_failure.depth);
  t_pending_failure = {.text = text, .kind = kind, .depth = depth};
}

void clear_pending_failure() {
  if (t_pending_failure.depth > runtime::this_thread_frames().depth) t_pending_failure = {};
}
bool has_pending_failure() { return !t_pending_failure.text.empty(); }

void raise_pending_failure() {
  if (!has_pending_failure()) return;
  const PendingFailure failure = std::exchange(t_pending_failure, {});
  // Code that takes an OutOfMemoryError for too large a batch must not meet a broken disk so.
  TORCH_CHECK(failure.kind == runtime::FailureKind::kShortage, failure.text);
  TORCH_CHECK_WITH(OutOfMemoryError, false, failure.text);
}

void install_out_of_memory_errors() {
  // TORCH_SHOW_CPP_STACKTRACES makes torch set a function of its own, which cannot be asked for:
  // then errors show the stack as the C library tells it, without lines of source.
  const std::function<c10::Backtrace()> fetch = [] {
    raise_pending_failure();
    return c10::get_lazy_backtrace(1);
  };
  c10::SetStackTraceFetcher(fetch);
}

}  // namespace spillway::torch
