// SPDX-License-Identifier: Apache-2.0
// One pass over the step that decides every gap: what leaves when room is short, when it comes
// back.
//
// The pass follows the ops with an estimate of the time at which each begins. Where op i does not
// fit, storages are chosen to leave:
//
//     last touch        chosen here                next use
//        a ---- copy out ---- i ................... b
//             ^ in the past: as early as the link was idle
//
// Leaving is decided late, when all that could leave instead is known, and takes effect early. The
// price of a candidate is what computing would wait for its copies out and in, or the time to make
// it again, per byte and time that it stays away; among those that cost nothing the furthest next
// use wins (Belady). Copies in are queued as late as the link allows for all that is away.
//
// **Memory is safe by counting, not by timing**: at every op, what is on the device or queued to
// come, with the op's own need, stays within the budget. So however long copies take, a plan from a
// finished pass never runs out of memory; wrong times only cost time.
//
// Cost: O((touches + moves) log touches). Sources: L. A. Belady 1966; P. Cao et al., "A study of
// integrated prefetching and caching strategies", SIGMETRICS 1995 (fetch in the order of next use,
// evict the furthest); Capuchin (Peng et al. 2020) for prices; DTR (Kirisame et al. 2021) for cost
// per byte and time.
#pragma once

#include <cstdint>
#include <vector>

#include "draft/draft.hpp"

namespace spillway::planning {

/// In which order storages are considered for leaving.
enum class LeaveOrder : std::uint8_t {
  kFurthest,  ///< next use furthest ahead first
  kOldest,    ///< least recently used first
};

/// The choices that a storage has in its gaps.
enum class StorageRule : std::uint8_t { kAny, kKeep, kSwapOnly, kRecomputeOnly };

/// Rules by storage, for planners that decide by kind. An empty column means that none has one.
struct SweepRules {
  std::vector<StorageRule> rule;
  /// Leaves at the beginning of a gap that reaches beyond this op, needed or not; kNoRow: never.
  std::vector<Row> leave_before;
  /// A recomputation brings back all dropped storages of the same segment; kNoRow: only itself.
  std::vector<Row> segment;
  /// 1: dropped again after each use.
  std::vector<std::uint8_t> drop_after_use;
  /// A storage that a run for one of those brings back in passing is dropped again before the op,
  /// too.
  bool drop_in_passing = false;
};

/// The exponents of the price of a candidate that leaves,
///
///     cost / (bytes * (bytes used / bytes) ^ surplus_exponent * time away ^ away_exponent)
///
/// where `bytes used` are those that are short, and no more than all. A larger `away_exponent`
/// favours what is away for long (Belady's rule, whatever it costs); with a `surplus_exponent` of 1
/// bytes beyond those that are short count for nothing, with 0 all bytes count.
///
/// Here, where a search begins, they are 1 and 0: cost per byte and time, the rule of DTR (Kirisame
/// et al. 2021), which knows no surplus; that one is ours. The mean of simulated step over lower
/// bound, one pass for each of the 213 cases of the corpus's 220 in which every pair has a plan
/// (spillway_price_exponents):
///
///     surplus \ away      0      0.5      1      1.5      2       3
///     0                1.266   1.260   1.274   1.283   1.280   1.301
///     0.25             1.261   1.257   1.273   1.281   1.283   1.294
///     0.5              1.273   1.253   1.258   1.264   1.270   1.298
///     1                1.304   1.261   1.266   1.266   1.273   1.284
///
/// All pairs lie within 4 %, and each is the best in a third of the cases or more. The best pair of
/// each case reaches 1.208: so the search tries several, and no value here can replace that.
inline constexpr double kAwayExponent = 1;
inline constexpr double kSurplusExponent = 0;

struct SweepSettings {
  bool recompute = true;    ///< storages may be dropped and made again
  bool transients = true;   ///< what a recomputation reads may be made again though it is dead
  bool early_out = true;    ///< copies out begin as early as the link was idle
  bool prefetch = true;     ///< copies in are queued before they are needed
  bool spare_host = false;  ///< what can be made again is not copied, however cheap that is
  double link_price = 0.2;  ///< ns charged per ns of copying, though nobody waits for it
  double lead = 0.05;       ///< copies in begin earlier by this share of the time they take
  double away_exponent = kAwayExponent;
  double surplus_exponent = kSurplusExponent;
  int candidates = 8;    ///< looked at for each storage that leaves, per order
  bool by_size = false;  ///< candidates are looked at in every class of sizes, not over all sizes
  bool choose_workspace = true;  ///< ops run as the fastest alternative that fits
  LeaveOrder order = LeaveOrder::kFurthest;
  SweepRules rules{};
  std::uint64_t reserve = 0;     ///< bytes of the device left unused, for copies to overlap
  std::uint64_t stay_up_to = 0;  ///< storages of up to so many bytes never leave
};

/// The place of a storage that the step only frees.
inline constexpr std::uint8_t kBeginsNowhere = 3;

/// The places of storages that live on when the step begins; by storage.
struct BeginState {
  std::vector<std::uint8_t> away;  ///< 0: on the device, 1: host, 2: disk, or kBeginsNowhere
  /// The slower tier that also has a copy of one on the device: 0: none, 1: host, 2: disk.
  /// Empty: none has.
  std::vector<std::uint8_t> copied;

  bool operator==(const BeginState&) const = default;
};

struct SweepResult {
  Draft draft;
  bool feasible = false;
  Row binding_op = 0;          ///< where not feasible
  std::uint64_t short_by = 0;  ///< bytes, there
  std::vector<Row> to_blame;   ///< storages whose recomputations did not fit there
  double step_ns = 0;          ///< estimated
  BeginState end;              ///< where what lives on was at the end
};

/// Passes until one that does not fit is given up; before each other storages are no longer to be
/// made again.
inline constexpr int kMostPassesInVain = 9;

/// Whether copies may find the fastest tier below the device full.
bool is_scarce(const StepModel& model);

/// Runs the pass twice: once to see where storages are at the end of a step, once from there. Where
/// a tier below the device is scarce it goes on until a step ends as it begins, or some times.
SweepResult sweep(const StepModel& model, const SweepSettings& settings);
/// One pass from a given beginning.
SweepResult sweep_from(const StepModel& model, const SweepSettings& settings,
                       const BeginState& begin);

}  // namespace spillway::planning
