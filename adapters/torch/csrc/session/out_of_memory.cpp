// SPDX-License-Identifier: Apache-2.0
// How a shortage that was found before an op arrives as torch.OutOfMemoryError.
//
// The hook may not throw. It leaves the text for the op's first allocation, which may. An op that
// allocates nothing meets the refused storage instead, whose accessors throw a plain c10::Error
// with our text: a RuntimeError in Python. Every c10::Error fetches a stack trace as it is made, by
// a function that can be set. Ours throws the right error from there while one is pending.
#include <c10/util/Logging.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "session/session.hpp"

namespace spillway::torch {

namespace {

struct PendingFailure {
  std::string text;
  runtime::FailureKind kind = runtime::FailureKind::kShortage;
};
thread_local PendingFailure t_pending_failure;

}  // namespace

void set_pending_failure(const std::string& text, runtime::FailureKind kind) {
  t_pending_failure = {.text = text, .kind = kind};
}

void clear_pending_failure() { t_pending_failure.text.clear(); }
bool has_pending_failure() { return !t_pending_failure.text.empty(); }

void raise_pending_failure() {
  if (!has_pending_failure()) return;
  const PendingFailure failure = std::exchange(t_pending_failure, {});
  // Who takes an OutOfMemoryError for a batch that is too large must not meet a broken disk so.
  TORCH_CHECK(failure.kind == runtime::FailureKind::kShortage, failure.text);
  TORCH_CHECK_WITH(OutOfMemoryError, false, failure.text);
}

void install_out_of_memory_errors() {
  // Then torch has set a function of its own, which cannot be asked for.
  const char* shown = std::getenv("TORCH_SHOW_CPP_STACKTRACES");
  if (shown != nullptr && std::strcmp(shown, "0") != 0) return;
  const std::function<c10::Backtrace()> fetch = [] {
    raise_pending_failure();
    return c10::get_lazy_backtrace(1);
  };
  c10::SetStackTraceFetcher(fetch);
}

}  // namespace spillway::torch
