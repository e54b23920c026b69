// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/sim/simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "memory_model.hpp"
#include "recompute_group.hpp"
#include "spillway/base/error.hpp"
#include "step_layout.hpp"

namespace spillway::planning {

using residency::ResidencyState;
using sim::ItemIndex;
using sim::MemoryModel;
using sim::Need;

std::string_view to_string(StallCause cause) {
  constexpr std::array<std::string_view, kStallCauseCount> kNames{
      "allocation", "input", "demand_fetch", "wait", "recompute"};
  return kNames[index_of(cause)];
}

struct Simulator::Prepared {
  explicit Prepared(const Problem& given) : problem(given), layout(given.trace) {}

  Problem problem;
  sim::StepLayout layout;
};

/// One simulation: computing, which walks the ops and waits for memory.
class Simulator::Run {
 public:
  Run(const Prepared& prepared, const Plan& plan, const SimulationOptions& options)
      : problem_(prepared.problem),
        trace_(prepared.problem.trace),
        layout_(prepared.layout),
        plan_(plan),
        observer_(options.observer),
        measurements_(options.timeline),
        memory_(problem_, plan.page_fault_ns, measurements_, options.observer),
        items_(trace_.storages.size(), kNoItem),
        recomputations_(trace_) {}

  SimulationOutcome run(std::uint32_t steps) {
    choose_alternatives();
    if (!begin_first_step()) return std::move(*failure_);
    for (std::uint32_t step = 1;; ++step) {
      measurements_.begin_step(held().now(), held().levels());
      const residency::Statistics before = held().statistics();
      if (step > 1 && !begin_next_step()) return std::move(*failure_);
      if (!run_step()) return std::move(*failure_);
      if (step >= steps) return report_since(before);
    }
  }

 private:
  static constexpr ItemIndex kNoItem = ~ItemIndex{0};

  // --- steps ---

  void choose_alternatives() {
    duration_ = trace_.ops.duration_ns;
    workspace_ = trace_.ops.workspace;
    for (const PlanAction& action : plan_.actions) {
      if (action.at != OpIndex{0}) break;
      if (action.kind != PlanActionKind::kChoose) continue;
      const OpAlternative& chosen = trace_.ops.alternatives[action.op][action.alternative];
      duration_[to_value(action.op)] = chosen.duration_ns;
      workspace_[to_value(action.op)] = chosen.workspace;
    }
  }

  bool begin_first_step() {
    std::vector<const PlanPlace*> place_of(trace_.storages.size());
    for (const PlanPlace& place : plan_.places) place_of[to_value(place.storage)] = &place;
    for (const auto& beginning : layout_.beginnings()) {
      const StorageId storage = beginning.storage;
      item_of(storage) = memory_.create(storage, bytes_of(storage));
      const PlanPlace* place = place_of[to_value(storage)];
      if (place != nullptr) memory_.place(item_of(storage), *place);
    }
    const auto levels = held().levels();
    for (const Tier tier : kTiers) {
      if (levels[index_of(tier)] <= problem_.budgets[tier]) continue;
      fail(tier, levels[index_of(tier)], problem_.budgets[tier], "the step begins with too much");
      return false;
    }
    return true;
  }

  bool begin_next_step() {
    memory_.set_op(OpIndex{0});
    op_ = OpIndex{0};
    for (const StorageId storage : layout_.endings()) {
      memory_.die(std::exchange(item_of(storage), kNoItem));
    }
    // First all that goes on, since a storage may go on as one whose row another leaves.
    std::vector<ItemIndex> going_on;
    for (const auto& beginning : layout_.beginnings()) {
      if (beginning.before == kNoStorage) continue;
      going_on.push_back(std::exchange(item_of(beginning.before), kNoItem));
    }
    auto next = going_on.begin();
    for (const auto& beginning : layout_.beginnings()) {
      if (beginning.before == kNoStorage) continue;
      item_of(beginning.storage) = *next;
      memory_.rename(*next++, beginning.storage);
    }
    for (const auto& beginning : layout_.beginnings()) {
      if (beginning.before != kNoStorage) continue;
      needed_.clear();
      if (!reserve_room(bytes_of(beginning.storage))) return false;
      item_of(beginning.storage) = memory_.create(beginning.storage, bytes_of(beginning.storage));
      memory_.keep_room_for_computing(false);
    }
    return true;
  }

  bool run_step() {
    next_action_ = 0;
    for (std::size_t op = 0; op < layout_.ops(); ++op) {
      op_ = OpIndex{op};
      memory_.set_op(op_);
      if (!take_actions() || !run_op()) return false;
    }
    op_ = OpIndex{layout_.ops()};
    memory_.set_op(op_);
    return take_actions();
  }

  SimulationReport report_since(const residency::Statistics& before) {
    SimulationReport report = measurements_.take(held().now());
    const residency::Statistics& after = held().statistics();
    report.evictions = after.evictions - before.evictions;
    report.evicted = after.evicted - before.evicted;
    report.clean_evictions = after.clean_evictions - before.clean_evictions;
    report.clean_evicted = after.clean_evicted - before.clean_evicted;
    report.fetches = after.fetches - before.fetches;
    report.fetched = after.fetched - before.fetched;
    return report;
  }

  // --- ops ---

  bool run_op() {
    const std::size_t op = to_value(op_);
    const Bytes workspace = workspace_[op];
    needed_.clear();
    for (const Need& need : layout_.needs(op)) needed_.push_back(need.storage);
    if (!bring_in_needed() || !reserve_room(layout_.created(op) + workspace)) return false;
    for (const Need& need : layout_.needs(op)) {
      memory_.use(item_of(need.storage), need.writes);
    }
    for (const StorageId storage : trace_.ops.creates[op_]) {
      item_of(storage) = memory_.create(storage, bytes_of(storage));
    }
    memory_.hold(workspace);
    memory_.keep_room_for_computing(false);
    if (observer_ != nullptr) observer_->on_op_begin(op_);
    const TimeNs begin = held().now();
    memory_.advance(begin + duration_[op]);
    measurements_.note_op(begin, held().now(), op_);
    memory_.release(workspace);
    for (const StorageId storage : trace_.ops.frees[op_]) {
      memory_.die(std::exchange(item_of(storage), kNoItem));
    }
    if (observer_ != nullptr) observer_->on_op_end(op_);
    return true;
  }

  bool bring_in_needed() {
    return std::ranges::all_of(needed_, [&](StorageId storage) { return bring_in(storage); });
  }
  [[nodiscard]] bool has_needed() {
    return std::ranges::all_of(needed_,
                               [&](StorageId storage) { return held().is_here(item_of(storage)); });
  }

  bool bring_in(StorageId storage) {
    const ItemIndex item = item_of(storage);
    if (item == kNoItem || held().state(item) == ResidencyState::kDropped) {
      return lost(storage);
    }
    const bool demanded = memory_.demand(item);
    if (held().is_here(item)) return true;
    if (demanded) ++measurements_.report().demand_fetches;
    const StallCause cause = demanded ? StallCause::kDemandFetch : StallCause::kInput;
    return wait_until([&] { return held().is_here(item); }, cause, storage, bytes_of(storage));
  }

  /// No fetch may take the room until the caller has taken it and says so to the memory: what an op
  /// does before that, such as giving up the slower copies of what it writes, lets copies begin.
  /// Other inputs of the op may leave for what the room waits for, and come in again.
  bool reserve_room(Bytes bytes) {
    const auto has_room = [&] { return held().has_room(bytes + memory_.owed_to_forgetting()); };
    for (;;) {
      memory_.keep_room_for_computing(true);
      if (!has_room() && !wait_until(has_room, StallCause::kAllocation, kNoStorage, bytes)) {
        return false;
      }
      if (!memory_.gave_way() || has_needed()) return true;
      if (!bring_in_needed()) return false;
    }
  }

  /// Lets time pass until it is so. False, with the reason, if it never will be.
  template <typename Condition>
  bool wait_until(const Condition& condition, StallCause cause, StorageId storage, Bytes need) {
    const TimeNs begin = held().now();
    while (!condition()) {
      if (memory_.step_to_next_end() || memory_.admit_fetches() || memory_.give_way()) continue;
      return stuck(storage, need);
    }
    measurements_.note_stall(cause, begin, held().now(), op_, storage);
    return true;
  }

  // --- actions ---

  bool take_actions() {
    const auto& actions = plan_.actions;
    const std::size_t first = next_action_;
    while (next_action_ < actions.size() && actions[next_action_].at == op_) ++next_action_;
    const auto group = std::span(actions).subspan(first, next_action_ - first);
    recomputations_.begin(group);
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (!take(group[i], i)) return false;
    }
    return true;
  }

  bool take(const PlanAction& action, std::size_t position) {
    switch (action.kind) {
      case PlanActionKind::kRecompute:
        return recompute(action.op, position);
      case PlanActionKind::kChoose:
        return true;  // before the step
      default:
        break;
    }
    const ItemIndex item = item_of(action.storage);
    if (item == kNoItem) {
      fail(Tier::kDevice, {}, {},
           fmt::format("{} of {}, which is not alive", to_string(action.kind),
                       name_of(action.storage)));
      return false;
    }
    switch (action.kind) {
      case PlanActionKind::kEvict:
        memory_.evict(item, action.tier);
        return true;
      case PlanActionKind::kDemote:
        memory_.demote(item);
        return true;
      case PlanActionKind::kFetch:
        memory_.fetch(item);
        return true;
      case PlanActionKind::kForget:
        memory_.forget(item);
        return true;
      case PlanActionKind::kDrop:
        memory_.drop(item);
        return true;
      default:
        return wait_until([&] { return !memory_.is_moving(item); }, StallCause::kWait,
                          action.storage, bytes_of(action.storage));
    }
  }

  bool recompute(OpIndex recomputed, std::size_t position) {
    needed_.clear();
    for (const StorageId storage : trace_.ops.reads[recomputed]) {
      if (!recomputations_.has_transient(storage)) needed_.push_back(storage);
    }
    if (!bring_in_needed()) return false;
    // A storage still here, since its drop waits for the end of a copy, stays and needs no room.
    std::vector<StorageId> made;
    Bytes room = workspace_[to_value(recomputed)];
    for (const StorageId storage : trace_.ops.creates[recomputed]) {
      const ItemIndex item = item_of(storage);
      if (item != kNoItem && memory_.withdraw_drop(item)) continue;
      made.push_back(storage);
      room += bytes_of(storage);
    }
    if (!reserve_room(room)) return false;
    for (const StorageId storage : needed_) memory_.use(item_of(storage), false);
    std::vector<ItemIndex> back;
    Bytes thrown_away = workspace_[to_value(recomputed)];
    for (const StorageId storage : made) {
      const ItemIndex item = item_of(storage);
      const bool alive = item != kNoItem;
      if (alive && held().state(item) == ResidencyState::kDropped) {
        memory_.begin_recomputation(item);
        back.push_back(item);
      } else if ((alive && held().is_here(item)) || !recomputations_.keep(storage, position)) {
        thrown_away += bytes_of(storage);
      } else {
        memory_.hold(bytes_of(storage));
      }
    }
    memory_.hold(thrown_away);
    memory_.keep_room_for_computing(false);
    const TimeNs begin = held().now();
    memory_.advance(begin + duration_[to_value(recomputed)]);
    measurements_.note_recomputation(begin, held().now(), recomputed);
    for (const ItemIndex item : back) memory_.end_recomputation(item);
    memory_.release(thrown_away + recomputations_.read_by(recomputed, position));
    return true;
  }

  // --- what cannot be ---

  void fail(Tier tier, Bytes need, Bytes have, std::string reason) {
    failure_ = {.op = op_, .tier = tier, .need = need, .have = have, .reason = std::move(reason)};
  }

  bool lost(StorageId storage) {
    fail(Tier::kDevice, {}, {}, fmt::format("{} is needed and lies on no tier", name_of(storage)));
    return false;
  }

  bool stuck(StorageId storage, Bytes need) {
    if (const auto waiting = memory_.waiting_eviction()) {
      const auto [item, tier] = *waiting;
      const Bytes bytes = bytes_of(held()[item].storage());
      fail(tier, held().levels()[index_of(tier)] + bytes, problem_.budgets[tier],
           fmt::format("the {} has no room for {}", to_string(tier),
                       name_of(held()[item].storage())));
      return false;
    }
    const std::string what =
        storage == kNoStorage ? "what the op creates and its workspace" : name_of(storage);
    fail(Tier::kDevice, held().used(Tier::kDevice) + need, problem_.budgets[Tier::kDevice],
         fmt::format("the device has no room for {}", what));
    return false;
  }

  [[nodiscard]] std::string name_of(StorageId storage) const {
    const std::string_view name = trace_.storages.name[to_value(storage)];
    return name.empty() ? fmt::format("storage {}", to_value(storage))
                        : fmt::format("storage {} ({})", to_value(storage), name);
  }
  [[nodiscard]] Bytes bytes_of(StorageId storage) const {
    return trace_.storages.bytes[to_value(storage)];
  }
  [[nodiscard]] const sim::Holdings& held() const { return memory_.holdings(); }
  ItemIndex& item_of(StorageId storage) { return items_[to_value(storage)]; }

  const Problem& problem_;
  const Trace& trace_;
  const sim::StepLayout& layout_;
  const Plan& plan_;
  SimulationObserver* observer_;
  sim::Measurements measurements_;
  MemoryModel memory_;
  std::vector<ItemIndex> items_;  // by storage
  sim::RecomputeGroup recomputations_;
  std::vector<TimeNs> duration_;  // with the alternatives chosen
  std::vector<Bytes> workspace_;
  std::vector<StorageId> needed_;  // by the op or recomputation that is about to run
  OpIndex op_{};
  std::size_t next_action_ = 0;
  std::optional<SimulationFailure> failure_;
};

namespace {

void require_links(const Machine& machine, const Plan& plan) {
  const bool has_host = machine.link(LinkKind::kDeviceToHost).has_value();
  const bool has_disk = machine.link(LinkKind::kHostToDisk).has_value();
  const auto require = [&](Tier tier) {
    if (tier == Tier::kHost ? has_host : tier == Tier::kDevice || has_disk) return;
    throw UserError(
        fmt::format("The plan uses the {}, to which no link of the machine {} leads. Name "
                    "the machine that it was made for, or make it again for this one.",
                    to_string(tier), machine.name));
  };
  for (const PlanPlace& place : plan.places) {
    for (const Tier tier : kTiers) {
      if (place.on(tier)) require(tier);
    }
  }
  for (const PlanAction& action : plan.actions) {
    if (action.kind == PlanActionKind::kEvict) require(action.tier);
    if (action.kind == PlanActionKind::kDemote) require(Tier::kDisk);
  }
}

}  // namespace

Simulator::Simulator(const Problem& problem) {
  if (!problem.trace.timed) {
    throw UserError(
        "The trace has no durations, since it was recorded without running: estimate them for a "
        "machine first.");
  }
  prepared_ = std::make_unique<Prepared>(problem);
}
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;
Simulator::~Simulator() = default;

SimulationOutcome Simulator::run(const Plan& plan, const SimulationOptions& options) {
  require_links(prepared_->problem.machine, plan);
  return Run(*prepared_, plan, options).run(options.steps);
}

SimulationOutcome simulate(const Problem& problem, const Plan& plan,
                           const SimulationOptions& options) {
  return Simulator(problem).run(plan, options);
}

}  // namespace spillway::planning
