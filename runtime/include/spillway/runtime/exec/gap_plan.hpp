// SPDX-License-Identifier: Apache-2.0
// Which storages of a repeating step are away from the device, and when.
//
// A storage can leave in the access gaps between two uses of it. The demand says what each op needs
// if none does; so those gaps are wanted whose storages together hold, at every op, what the budget
// lacks there:
//
//     demand(q) - bytes of chosen gaps around q <= budget                           for every q
//
//     op                 0  1  2  3  4  5  6  7
//     state, 4 bytes     -  -  -  -  -  u  -  -      used once a step
//     activation, 4      u  -  -  -  u
//     lacking               2  6  3                  the state is chosen, and for op 2 the other
//
// It goes through the ops in order. Where something is lacking, it chooses the gap that ends
// furthest away among all that are open there (Belady 1966). Gaps that begin before their room is
// needed count, too. The choice is made once for the whole step, before the step runs. So it does
// not take what is at hand instead of what leaves a moment later.
//
// Units: ops of the period, bytes. Pure functions and a value; single-threaded; throw only
// std::bad_alloc.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/runtime/exec/demand_profile.hpp"

namespace spillway::runtime {

struct Gap {
  std::uint64_t begin = 0;  ///< op of the period with the use before it
  std::uint64_t ops = 0;    ///< to the next use, at least 1: the storage can be away in between
  Bytes bytes;              ///< of the storage; zero: it cannot leave
  TimeNs again = 0;         ///< that making it again takes; 0: it is copied
};

/// For each gap whether its storage is away in it. O((ops + gaps) log gaps).
std::vector<bool> choose_gaps(std::span<const Gap> gaps, const DemandProfile& demand, Bytes budget);

/// The choice for a step whose touches (see StepRecord) are numbered. A gap is known by the touch
/// that ends it.
class GapPlan {
 public:
  /// The storage of that touch, one of `touches`, takes so much of the device.
  /// Before the touch it could have been made again in the time `again`; 0: it could not.
  void note(std::uint32_t touch, std::size_t touches, Bytes bytes, TimeNs again) {
    if (bytes_.empty()) {
      bytes_.resize(touches);
      again_.resize(touches);
    }
    bytes_[touch] = bytes.count;
    again_[touch] = again;
  }
  /// As noted in the latest pass; zero before.
  [[nodiscard]] Bytes bytes(std::uint32_t touch) const {
    return {bytes_.empty() ? 0 : bytes_[touch]};
  }
  [[nodiscard]] TimeNs again(std::uint32_t touch) const {
    return again_.empty() ? 0 : again_[touch];
  }
  /// Whether the gap that ends with the touch was chosen.
  [[nodiscard]] bool away_before(std::uint32_t touch) const {
    return !away_before_.empty() && away_before_[touch];
  }

  /// Whether to choose anew: once in a pass at most, where the ops need another `most` bytes at
  /// most, where it is another budget, or a while since.
  [[nodiscard]] bool is_due(std::uint64_t pass, Bytes most, Bytes budget) const;
  /// The touches end other gaps than they did.
  void forget();
  /// The gaps, and the touches that end them, of `touches`.
  void choose(std::span<const Gap> gaps, std::span<const std::uint32_t> ends, std::size_t touches,
              const DemandProfile& demand, std::uint64_t pass, Bytes budget);

 private:
  std::vector<std::uint64_t> bytes_;  // by touch
  std::vector<TimeNs> again_;         // by touch
  std::vector<bool> away_before_;     // by touch
  std::uint64_t due_ = 0;             // the pass in which to choose next
  std::uint64_t chosen_in_ = 0;       // the pass of the last choice
  std::uint64_t passes_between_ = 1;
  Bytes most_{};
  Bytes budget_{};
};

}  // namespace spillway::runtime
