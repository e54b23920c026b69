// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace spillway::runtime {

/// Does something again and again on a thread of its own, until it is told to end.
class Beside {
 public:
  explicit Beside(std::function<void()> turn)
      : thread_([this, turn = std::move(turn)] {
          try {
            for (; !over_; ++turns_) turn();
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}
  ~Beside() { end(); }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;

  /// How often it did it. Throws what it threw.
  std::uint64_t finish() {
    end();
    if (failure_) std::rethrow_exception(failure_);
    return turns_;
  }

 private:
  void end() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<bool> over_{false};
  std::uint64_t turns_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace spillway::runtime
