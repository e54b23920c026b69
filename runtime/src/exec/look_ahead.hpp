// SPDX-License-Identifier: Apache-2.0
// Chooses storages to leave before memory is needed and to come back before they are used.
//
// The recorded step says how much each coming op needs if nothing is away (DemandProfile), and when
// each storage is used next. Only storages used after q can be away at op q, so
//
//     demand(q) - away(q) <= budget                                              for every q  (*)
//
//     write behind   where (*) fails somewhere before a storage's next use, that storage leaves
//     now:
//                    the one used furthest away first (Belady 1966)
//     prefetch       in the order of use, a storage comes back as soon as (*) still holds for every
//                    op until its use: it must not push out what is needed earlier
//
// Both only say what to do next; nothing is remembered from call to call, so a prediction that
// fails costs time and nothing else. Where the stream leaves the recorded path there is no profile,
// and nothing is decided. A pure function: no clock, lock or memory of the engine.
//
// The two pointers of nnabla's scheduler (Sony, 2020: prefetch at the head while memory lasts) with
// FlashNeuron's and Capuchin's question (is there an op in between that has no room?) in place of
// its back-tracking.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/residency/victims.hpp"

namespace spillway::runtime {

/// A storage whose bytes are not on the device, or leave it.
struct AwayStorage {
  std::uint64_t next_use;  ///< ops from now, at least 1; residency::kNeverUsed
  Bytes bytes;
  bool fetchable;  ///< false while it still leaves, or already comes
};

/// One that could leave.
struct ResidentStorage {
  std::uint64_t next_use;  ///< as above
  Bytes bytes;
  bool clean;  ///< leaves without a copy
};

class LookAhead {
 public:
  /// Most bytes that any of `count` ops needs, from the `first` one on; the running op is op 0.
  using Demand = std::function<Bytes(std::uint64_t first, std::uint64_t count)>;

  /// `away` in any order. `period`: ops after which the demand repeats.
  LookAhead(std::vector<AwayStorage> away, Demand demand, std::uint64_t period, Bytes budget);

  /// Bytes by which (*) fails at worst. Nothing need leave where that is 0.
  [[nodiscard]] Bytes shortage() const;

  /// Indices of the residents that should leave, in that order.
  std::vector<std::size_t> write_behind(std::span<const ResidentStorage> residents);

  /// Indices into `away`, as it was given, of what should be fetched, in that order.
  std::vector<std::size_t> prefetch();

 private:
  struct Stretch {  // ops from one next use of an away storage to the following one
    std::uint64_t begin;
    std::int64_t away;    // bytes
    std::int64_t excess;  // most that demand - away exceeds the budget by; negative: room left
  };

  [[nodiscard]] std::int64_t excess(std::uint64_t begin, std::uint64_t end,
                                    std::int64_t away) const;

  Demand demand_;
  Bytes budget_;
  std::vector<AwayStorage> away_;
  std::vector<std::size_t> order_;  // of away_, by next use
  std::vector<Stretch> stretches_;  // stretch i begins at the use of order_[i - 1]
};

}  // namespace spillway::runtime
