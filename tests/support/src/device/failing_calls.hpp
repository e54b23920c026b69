// SPDX-License-Identifier: Apache-2.0
// Functions of the driver's that can be made to fail, in a process that runs: those that Spillway
// calls, while PyTorch's own calls go on.
#pragma once

#include <mutex>

#include "spillway/runtime/device/cuda_abi.hpp"

namespace spillway::testing {

/// Which calls of one function fail. Thread-safe.
class Failures {
 public:
  /// The `nth` call from now on, from 1, ends with `code` and does nothing; with `and_later` all
  /// after it, too.
  void begin(unsigned nth, runtime::cuda::Result code, bool and_later) {
    const std::lock_guard lock(mutex_);
    after_ = nth;
    code_ = code;
    and_later_ = and_later;
  }
  /// How the next call fails; 0: it does not.
  runtime::cuda::Result next() {
    const std::lock_guard lock(mutex_);
    if (after_ == 0) return 0;
    if (after_ > 1) return --after_, 0;
    if (!and_later_) after_ = 0;
    ++count_;
    return code_;
  }
  /// How many have failed.
  [[nodiscard]] int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  unsigned after_ = 0;  // 0: none will fail
  runtime::cuda::Result code_ = 0;
  bool and_later_ = false;
  int count_ = 0;
};

/// What is called in the function's place.
template <auto kFunction>
struct Failing;

template <typename... Parameters, runtime::cuda::Result (*kFunction)(Parameters...)>
struct Failing<kFunction> {
  static runtime::cuda::Result call(Parameters... parameters) {
    const runtime::cuda::Result failure = failures().next();
    return failure != 0 ? failure : kFunction(parameters...);
  }
  static Failures& failures() {
    static auto* const kTheirs = new Failures;  // callers call while the process ends
    return *kTheirs;
  }
};

}  // namespace spillway::testing
