// SPDX-License-Identifier: Apache-2.0
// What a process holds on a card besides managed tensors and its framework's pool: the context, and
// what libraries load with the first kernels that they launch.
//
//   bytes |                     ______________   held
//         |        ____________|
//         |_______|   expected to come
//         |-------------------|------------|
//           first count         settled: three steps are done, one more module is expected
//
// Libraries load within a launch, without asking anybody. So until the program has repeated itself
// room is kept for as much as they usually come to, and after that for one more module of kernels:
// another part of the program may launch it at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::runtime {

class UnmanagedGauge {
 public:
  /// What one look at the driver's count saw.
  struct Look {
    Bytes process{};         ///< all that the driver counts for the process
    Bytes managed_before{};  ///< held for tensors before the driver was asked, and after
    Bytes managed_after{};
    Bytes opening{};  ///< of that, at most what the driver did not count yet
    Bytes pool{};     ///< the framework's own
    std::uint64_t steps = 0;
    TimeNs began = 0;
    TimeNs ended = 0;
  };

  /// Whether a look is due. True for one caller alone, who then calls `note` or `note_nothing`. Any
  /// thread.
  [[nodiscard]] bool claim_look(TimeNs now);
  /// Returns whether `held` or `expected` changed. What is allocated while the driver is asked, or
  /// paid for and not there yet, makes the count uncertain: then what was known stays as far as it
  /// agrees with what was seen.
  bool note(const Look& look);
  /// The driver did not tell.
  void note_nothing(TimeNs began, TimeNs ended);

  /// Any thread.
  [[nodiscard]] Bytes held() const { return {held_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes expected() const { return {expected_.load(std::memory_order_relaxed)}; }

 private:
  [[nodiscard]] Bytes expected_beside(Bytes held) const;

  std::atomic<std::uint64_t> held_{0};
  std::atomic<std::uint64_t> expected_{0};
  std::atomic<TimeNs> look_at_{0};
  std::mutex mutex_;  // of what follows: a look may outlast the time until the next is due
  Bytes first_{};
  TimeNs first_at_ = 0;
  bool settled_ = false;
};

}  // namespace spillway::runtime
