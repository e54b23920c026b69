// SPDX-License-Identifier: Apache-2.0
// Chooses storages to come back before they are used. What leaves ahead of need, GapPlan chooses.
//
// The recorded step says how much each coming op needs if nothing is away (DemandProfile), and when
// each storage is used next. Only storages used after q can be away at op q. So in the order of
// use, a storage comes back as soon as
//
//     demand(q) - away(q) <= budget                                for every op q until its use
//
// holds with it, too: it must not push out what is needed earlier.
//
// It only says what to do next; nothing is remembered from call to call, so a prediction that fails
// costs time and nothing else. Where the stream leaves the recorded path there is no profile, and
// nothing is decided. A pure function: no clock, lock or memory of the engine.
//
// The head pointer of nnabla's scheduler (Sony, 2020: prefetch while memory lasts) with
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

/// Most bytes that any of `count` ops needs, from the `first` one on; the running op is op 0.
using CountedDemand = std::function<Bytes(std::uint64_t first, std::uint64_t count)>;

/// Indices into `away`, which has any order, of what should be fetched, in that order. `period`:
/// ops after which the demand repeats.
std::vector<std::size_t> choose_prefetches(std::span<const AwayStorage> away,
                                           const CountedDemand& demand, std::uint64_t period,
                                           Bytes budget);

}  // namespace spillway::runtime
