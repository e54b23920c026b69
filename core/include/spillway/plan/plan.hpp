// SPDX-License-Identifier: Apache-2.0
// The movements planned for the bytes of every storage during one training step, decided
// beforehand.
//
//     op            0      1      2      3   ...   n-1    (end: n)
//                   ^      ^      ^                        ^
//     actions    fetch   evict   drop                    evict
//                 evict          recompute
//
// An action is attached to an op and means: when computing is about to begin that op; attached to
// n, the number of ops, it means the end of the step. Actions of one op are taken in the order in
// which they stand. None but `recompute` and `wait` holds computing up.
//
//   evict   The bytes leave the device for `tier`. If a current copy lies on a slower tier already
//           (the storage is clean), the device's memory is free at once and nothing is copied. Else
//           the copy is queued for the link device-to-host, and the memory is free when it is
//           through. To the disk it goes through the host: over that link, then host-to-disk. Where
//           the host has room it stays there between the two, and the device's memory is free
//           after the first; where not, after the second.
//   demote  From the host to the disk, over host-to-disk. A clean copy on disk makes it free.
//   fetch   The bytes come back to the device, over host-to-device, or disk-to-host and then
//           host-to-device. The copy waits until the device has room for it. While the storage is
//           still being evicted, that copy goes on and the storage stays. Slower copies stay too.
//   forget  The slower copies of a storage that is on the device, or on its way there, are given
//           up and their room is free: at once, or on arrival.
//   drop    The bytes are given up on all tiers: a recomputation makes them again, or nothing
//           uses them any more. A write is no way back, since it may leave part of the bytes as
//           they were.
//   recompute  The op `op` runs again, on the device, just before: what it reads must be there. Of
//           what it creates, the dropped storages come back. The others are transient: made anew
//           where the storage is dead or away, they take room on the device and serve the
//           recomputations attached to the same op, until the last of those that reads them has
//           run.
//   wait    Computing waits until the copy of the storage in flight, if any, is through.
//   choose  The op `op` runs as its alternative number `alternative`, here and in recomputations.
//           Attached to op 0.
//
// Each link carries its copies one after the other, in the order in which they were queued, except
// that what an op waits for goes first. Room on host and disk is taken when a copy is queued, on
// the device when it starts. An op whose storages are away with no fetch queued fetches them
// itself: a *demand fetch*. An op begins when all it reads and writes is on the device and there is
// room for what it creates and for its workspace. To free a storage it need not be there.
//
// A step repeats, so a plan must leave every storage that lives on where `places` says it begins.
// A storage not named there begins on the device, without other copies; one that the step frees
// before anything touches it may begin nowhere, dropped in the step before. See trace.hpp for
// storages that continue as others in the next step; what begins a step anew begins on the device.
//
// A plain value of ids and op indices, without pointers: it can be saved, compared and checked, by
// validator.hpp without reference to how it was made. Actions of the kinds drop, recompute follow
// SuperNeurons (Wang et al. 2018), evict and fetch Meng et al. 2017, wait the synchronous modes of
// TFLMS (Le et al. 2019).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/machine/tier.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway {

enum class PlanActionKind : std::uint8_t {
  kEvict,
  kDemote,
  kFetch,
  kForget,
  kDrop,
  kRecompute,
  kWait,
  kChoose,
};

inline constexpr std::size_t kPlanActionKindCount = 8;

/// The source of the durations of a step's ops.
enum class Durations : std::uint8_t {
  kRecorded,   ///< the trace's
  kEstimated,  ///< the figures of the machine that is planned for
};

/// `recorded`, `estimated`.
std::string_view to_string(Durations durations);
std::optional<Durations> parse_durations(std::string_view text);

std::string_view to_string(PlanActionKind kind);
std::optional<PlanActionKind> parse_plan_action_kind(std::string_view text);

/// Made by the functions below, which set what the kind uses and leave the rest as it is here.
struct PlanAction {
  OpIndex at{};
  PlanActionKind kind = PlanActionKind::kFetch;
  Tier tier = Tier::kDevice;       ///< evict: host or disk
  std::uint32_t alternative = 0;   ///< choose
  StorageId storage = kNoStorage;  ///< evict, demote, fetch, forget, drop, wait
  OpIndex op{};                    ///< recompute, choose

  static PlanAction evict(OpIndex at, StorageId storage, Tier tier);
  static PlanAction demote(OpIndex at, StorageId storage);
  static PlanAction fetch(OpIndex at, StorageId storage);
  static PlanAction forget(OpIndex at, StorageId storage);
  static PlanAction drop(OpIndex at, StorageId storage);
  static PlanAction recompute(OpIndex at, OpIndex op);
  static PlanAction wait(OpIndex at, StorageId storage);
  static PlanAction choose(OpIndex op, std::uint32_t alternative);

  bool operator==(const PlanAction&) const = default;
};

/// The tiers that have a storage's bytes when the step begins: the device, the host or the disk,
/// and perhaps slower ones with current copies. None only where the step frees it unused.
struct PlanPlace {
  StorageId storage{};
  std::uint8_t tiers = 0;  ///< bit index_of(tier) for each tier that has the bytes

  [[nodiscard]] constexpr bool on(Tier tier) const { return (tiers >> index_of(tier) & 1) != 0; }
  constexpr void add(Tier tier) { tiers = static_cast<std::uint8_t>(tiers | 1U << index_of(tier)); }
  bool operator==(const PlanPlace&) const = default;
};

/// The bytes that one page fault of unified memory brings in.
inline constexpr Bytes kPageBytes = kKiB * 64;

struct Plan {
  std::string planner{};  ///< which made it, with its options, for people
  std::string trace{};    ///< path of the trace it was made from, as it was given
  std::string machine{};  ///< name of the machine it was made for
  /// Those it was made with; other ones give another step. Nothing where nobody said.
  std::optional<Durations> durations{};
  std::string recorded_on{};  ///< where the recorded ones are from, as the trace says
  Budgets budgets{};          ///< what it keeps to
  /// The device's bytes that the plan leaves free for the workspace of kernels, beside its budget.
  Bytes workspace_margin{};
  /// The structure of the trace it was made for. It fits another with the same one.
  std::uint64_t structure = 0;
  /// Pages of unified memory: on top of its copy, a fetch takes as long for every kPageBytes begun.
  TimeNs page_fault_ns = 0;
  std::vector<PlanPlace> places{};    ///< by ascending storage, each once
  std::vector<PlanAction> actions{};  ///< by ascending `at`
  /// The signatures of the trace's ops, by which a run tells where in the step it is; empty where
  /// the trace has none.
  std::vector<std::uint64_t> signatures{};

  bool operator==(const Plan&) const = default;
};

/// Sorts actions by op, those of one op staying in the order in which they were appended, and
/// places by storage.
void sort(Plan& plan);

}  // namespace spillway
