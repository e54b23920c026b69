// SPDX-License-Identifier: Apache-2.0
// Runs a plan on a virtual clock: how long the step takes, what waits for what, what each tier
// holds.
//
// The states of the storages are those of residency::ResidencyMachine, the machine that the engine
// trains with; here its copies are completed by five queues: the device, which computes, and the
// four links. docs/simulator.md states what is modelled and what is not; plan.hpp says what an
// action means.
//
//     compute          | op 0 | op 1 |stall| op 2 | ...
//     device-to-host          |=== a ===|=== b ===|
//     host-to-device                       |== c ==|
//
// The step is simulated several times in a row, each going on from where the one before ended, and
// the last is reported: steady state, with copies over the boundary between steps. A simulator is
// made once for a problem and runs any number of plans; it holds workspace of its own, so one
// simulator is for one thread. O(ops + accesses + actions) for each step simulated.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/machine/machine.hpp"
#include "spillway/plan/plan.hpp"
#include "spillway/planning/problem.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/residency/transition_observer.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// The reason for which the device waited, or its work beside the recorded ops.
enum class StallCause : std::uint8_t {
  kAllocation,   ///< for evictions to make room
  kInput,        ///< for a fetch that the plan had queued
  kDemandFetch,  ///< for a fetch that nobody had queued
  kWait,         ///< in a `wait` of the plan
  kRecompute,    ///< it computed, but what had been computed before
};
inline constexpr std::size_t kStallCauseCount = 5;
constexpr std::size_t index_of(StallCause cause) { return static_cast<std::size_t>(cause); }
std::string_view to_string(StallCause cause);

/// One bar of a drawing.
struct TimelineSpan {
  enum class Kind : std::uint8_t { kOp, kRecompute, kStall, kCopy };
  Kind kind = Kind::kOp;
  StallCause cause = StallCause::kAllocation;  ///< kStall
  LinkKind link = LinkKind::kDeviceToHost;     ///< kCopy
  TimeNs begin = 0;                            ///< from the beginning of the step
  TimeNs end = 0;
  OpIndex op{};                    ///< that runs or waits; that computing was at when a copy began
  StorageId storage = kNoStorage;  ///< kCopy, and kStall where one storage is waited for
};

constexpr std::size_t index_of(StorageRole role) { return static_cast<std::size_t>(role); }

/// The bytes on the tiers from `time` on; of two of one time the first held for no time at all.
struct TimelineLevel {
  TimeNs time = 0;
  std::array<Bytes, kTierCount> bytes{};
  /// The bytes of it on the device, by role; under kWorkspace also what belongs to no storage:
  /// workspace, and what recomputations make for each other.
  std::array<Bytes, kStorageRoleCount> on_device{};
};

struct Timeline {
  std::vector<TimelineSpan> spans;  ///< by begin
  /// By time. For one instant it keeps the most that the device held and the last level, so that
  /// the most of all levels is the peak.
  std::vector<TimelineLevel> levels;
};

struct TierPeak {
  Bytes bytes{};
  OpIndex op{};  ///< that computing was at; the number of ops: at the end of the step
};

struct LinkUse {
  Bytes bytes{};
  std::uint64_t copies = 0;
  TimeNs busy_ns = 0;
};

/// The last simulated step. Times are of the virtual clock.
struct SimulationReport {
  TimeNs step_ns = 0;     ///< from its beginning to the beginning of the next
  TimeNs compute_ns = 0;  ///< of its ops, recomputations not counted: the step without any limit
  std::array<TimeNs, kStallCauseCount> stall_ns{};  ///< step_ns - compute_ns in all
  std::array<TierPeak, kTierCount> peak{};
  std::array<LinkUse, kLinkCount> links{};
  std::uint64_t evictions = 0;        ///< that copied
  std::uint64_t clean_evictions = 0;  ///< that did not have to
  std::uint64_t fetches = 0;          ///< demand fetches included
  std::uint64_t demand_fetches = 0;
  std::uint64_t recomputations = 0;
  Bytes evicted{};
  Bytes clean_evicted{};
  Bytes fetched{};
  Bytes dropped{};
  Timeline timeline;  ///< if asked for
};

/// Why the plan cannot be carried out.
struct SimulationFailure {
  OpIndex op{};  ///< that computing came to
  Tier tier = Tier::kDevice;
  Bytes need{};
  Bytes have{};        ///< of the tier's budget, with all that could leave gone
  std::string reason;  ///< a sentence, with names
  [[nodiscard]] Bytes short_by() const { return saturating_sub(need, have); }
};

using SimulationOutcome = std::variant<SimulationReport, SimulationFailure>;

/// Sees what a simulation does to the residency machine, and when ops run, in order.
class SimulationObserver : public residency::TransitionObserver {
 public:
  /// `machine_id` names a storage of the machine for its life, `storage` the trace's row.
  virtual void on_create(StorageId machine_id, StorageId storage, Bytes bytes) = 0;
  /// All that the op uses is there, and what it creates.
  virtual void on_op_begin(OpIndex /*op*/) {}
  /// The storages that it frees are gone. Recomputations are not shown.
  virtual void on_op_end(OpIndex /*op*/) {}
};

struct SimulationOptions {
  /// How many steps run, of which the last is reported; at least 1. What a plan leaves for the next
  /// step to wait for shows only from the third on: judged by two, plans win that put their copies
  /// off for ever.
  std::uint32_t steps = 4;
  bool timeline = false;
  SimulationObserver* observer = nullptr;
};

class Simulator {
 public:
  /// Throws UserError for a trace without durations or a machine without a link that is needed.
  explicit Simulator(const Problem& problem);
  Simulator(Simulator&&) noexcept;
  Simulator& operator=(Simulator&&) noexcept;
  ~Simulator();

  /// The plan's ids must exist in the trace; whether the plan makes sense is found out.
  [[nodiscard]] SimulationOutcome run(const Plan& plan, const SimulationOptions& options = {});

 private:
  class Run;
  struct Prepared;
  std::unique_ptr<Prepared> prepared_;
};

/// One plan, once.
SimulationOutcome simulate(const Problem& problem, const Plan& plan,
                           const SimulationOptions& options = {});

}  // namespace spillway::planning
