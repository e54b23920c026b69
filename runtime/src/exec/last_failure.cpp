// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/last_failure.hpp"

#include <utility>

namespace spillway::runtime {

namespace {

thread_local LastFailure t_last_failure;

}  // namespace

const LastFailure& last_failure() { return t_last_failure; }

void set_last_failure(std::string text, FailureKind kind) {
  t_last_failure = {.text = std::move(text), .kind = kind};
}

void set_last_failure(const DeviceFailure& failure) {
  set_last_failure(std::string("Spillway: ") + failure.what(), FailureKind::kUnreadable);
}

}  // namespace spillway::runtime
