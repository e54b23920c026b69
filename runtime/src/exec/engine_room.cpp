// SPDX-License-Identifier: Apache-2.0
// How the engine makes room: which storages leave, and what it waits for.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine_lock.hpp"
#include "room_request.hpp"
#include "spillway/runtime/exec/victim_order.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

constexpr std::size_t kNamedInErrors = 5;
// Room for what rounding and colours may add to the blocks of one op: 32 KiB each (see Arena).
constexpr Bytes kPagesOfAnOp = kKiB * 256;

struct LastFailure {
  std::string text;
  FailureKind kind = FailureKind::kShortage;
};
thread_local LastFailure t_last_failure;

// Whatever runs.
bool never_leaves(const StorageRecord& record, Bytes min_size) {
  return record.bytes < min_size || record.kept != 0 ||
         record.state.load() == ResidencyState::kExempt;
}

// The live bytes without those of storages that may leave: those of storages that stay, and memory
// that is no storage's.
template <typename Stays>
Bytes bytes_that_stay(Bytes live, const std::vector<StorageRecord*>& records, const Stays& stays) {
  for (const StorageRecord* record : records) {
    if (!stays(*record)) live -= Bytes{record->block->held()};
  }
  return live;
}

const char* why_it_stays(const StorageRecord& record, Bytes min_size) {
  if (record.owner.load() == nullptr) return "workspace of a running op";
  if (record.kept != 0) return "kept";
  if (record.state.load() == ResidencyState::kExempt) return "exempt";
  if (record.pins.load() != 0) return "used by an op or an export";
  if (record.bytes < min_size) return "smaller than what is moved";
  return "could not be written out";
}

}  // namespace

const std::string& Engine::last_failure() { return t_last_failure.text; }
FailureKind Engine::last_failure_kind() { return t_last_failure.kind; }
void set_last_failure(std::string text, FailureKind kind) {
  t_last_failure = {.text = std::move(text), .kind = kind};
}

bool can_leave(const StorageRecord& record, Bytes min_size) {
  return record.pins.load(std::memory_order_relaxed) == 0 && leaves_unless_pinned(record, min_size);
}

// Where none of the best could leave (disk full, exported), the next best are tried.
Bytes Engine::start_evictions(Bytes needed) {
  Bytes leaving{};
  VictimOrder& order = mover_.order();
  std::vector<StorageRecord*> stayed;
  while (leaving.count == 0) {
    const std::uint64_t now = clock_.load(std::memory_order_relaxed);
    const std::vector<StorageRecord*> victims = order.choose(needed, now, min_size());
    if (victims.empty()) break;
    for (StorageRecord* record : victims) {
      const Bytes left = mover_.evict(*record);
      leaving += left;
      if (left.count != 0) continue;
      order.set_aside(*record);
      stayed.push_back(record);
    }
  }
  for (StorageRecord* record : stayed) record->announce();  // the next time they may
  return leaving;
}

// SPILLWAY_START_AT: storages begin to leave before the budget is full, and nobody waits for them.
void Engine::keep_headroom() {
  const Mode mode = mode_.load();
  if (settings_.start_at >= 1.0 || blind() || !moves(mode)) return;
  const Bytes excess = above_start();
  if (excess.count != 0) start_evictions(excess);
}

Bytes Engine::above_start() const {
  const auto start =
      static_cast<std::uint64_t>(settings_.start_at * static_cast<double>(budget().count));
  return saturating_sub(memory_.live(), Bytes{start} + mover_.leaving());
}

bool Engine::make_room(Bytes needed, RoomRequest& request, Lock& lock) {
  const Mode mode = mode_.load();
  if (!moves(mode)) return false;
  if (claim_room(needed)) return true;
  if (blind()) return false;
  const std::uint64_t ended_before = frames_ended();
  // Dead storages must neither be evicted nor stand in the way.
  const Bytes live_before = memory_.live();
  drain_freed();
  if (memory_.live() < live_before) return true;
  const Bytes missing = saturating_sub(needed, mover_.leaving());
  const bool nothing_leaves = missing.count != 0 && start_evictions(missing).count == 0;
  if (memory_.live() < live_before) return true;  // clean copies left at once
  if (nothing_leaves && let_go_of_fresh_outputs()) return true;
  const std::uint64_t limits = limits_set_;
  return wait_for_progress(request, lock, ended_before) || limits_set_ != limits;
}

// A full host tier takes nothing until it has passed something on to the disk, so this may take as
// many passes as there are storages.
void Engine::evict_everything(Lock& lock) {
  if (blind()) return;
  const std::uint64_t failures = std::max(mover_.failures_in_a_row(), kMostFailures);
  bool again = true;
  for (std::size_t passes = mover_.live().size() + 1; again && passes != 0; --passes) {
    bool stayed = false;
    const std::vector<StorageRecord*> records = mover_.live();
    for (StorageRecord* record : records) {
      if (record->block == nullptr || !can_leave(*record, min_size())) continue;
      stayed |= mover_.evict(*record).count == 0;
    }
    again = stayed && mover_.in_flight() != 0;
    while (mover_.in_flight() != 0) wait_for_copies(lock.native());
    again = again && mover_.failures_in_a_row() <= failures && mode() == Mode::kFuzz;
  }
}

void Engine::push_out(bool outputs) {
  ThreadFrames& frames = this_thread_frames();
  if (mode() != Mode::kFuzz || in_child_ || frames.depth != 0) return;
  if (outputs) {
    ThreadFrames::unpin_all(frames.outputs);
    ThreadFrames::unpin_all(frames.touched);
  }
  Lock lock(*this);
  drain_freed();
  evict_everything(lock);
}

// The bytes that stay whatever other threads do: this op's inputs, and what never leaves.
Bytes Engine::stays_anyway(ThreadFrames& frames) {
  std::ranges::sort(frames.pinned);
  return bytes_that_stay(memory_.live(), mover_.live(), [&](const StorageRecord& record) {
    return never_leaves(record, min_size()) || std::ranges::binary_search(frames.pinned, &record);
  });
}

bool Engine::never_fits(Bytes bytes) {
  return bytes > budget() || stays_anyway(this_thread_frames()) + bytes > budget();
}

bool Engine::will_fit(ThreadFrames& frames) {
  const Bytes need = frames.needs.known();
  if (need.count == 0 || frames.inputs + need <= Bytes{budget().count / 2}) return true;
  const Lock lock(*this);
  if (may_overbook()) return true;
  drain_freed();
  const Bytes stays = stays_anyway(frames);
  do {
    if (stays + need <= budget()) return true;
  } while (claim_room(stays + need - budget()) || take_back());
  frames.needs.fail();
  // The count is in bytes; blocks hold whole pages, and start at different ones.
  const Bytes smallest = stays + need + kPagesOfAnOp;
  OutOfBudget::Facts facts = shortage(need, smallest - budget());
  facts.smallest_budget = smallest;
  facts.is_all = true;
  set_last_failure(OutOfBudget(std::move(facts)).what());
  return false;
}

// An input did not come back. All of them are known now, so that the error need not grow by one
// input at each larger budget that is tried.
void Engine::say_whole_need(ThreadFrames& frames) {
  const Lock lock(*this);
  drain_freed();
  const Bytes stays = stays_anyway(frames);
  Bytes need = frames.needs.known();
  Bytes away{};
  const StorageRecord* last = nullptr;
  for (const StorageRecord* record : frames.pinned) {  // sorted by stays_anyway
    if (record == std::exchange(last, record) || record->block == nullptr) continue;
    need += record->bytes;
    if (record->block->resident == 0) away += record->bytes;
  }
  const Bytes smallest = stays + away + frames.needs.known() + kPagesOfAnOp;
  if (smallest <= budget()) return;  // what other ops hold was in the way: that was said
  OutOfBudget::Facts facts = shortage(need, smallest - budget());
  facts.smallest_budget = smallest;
  facts.is_whole = true;
  set_last_failure(OutOfBudget(std::move(facts)).what());
}

// In record mode: what would stay beside the open op's own storages if it had to. What other ops
// and exports hold now counts, since in a step under a budget they hold it too.
Bytes Engine::stays_beside(ThreadFrames& frames) {
  const Lock lock(*this);
  drain_freed();
  std::ranges::sort(frames.pinned);
  return bytes_that_stay(memory_.live(), mover_.live(), [&](const StorageRecord& record) {
    if (never_leaves(record, min_size())) return true;
    if (std::ranges::binary_search(frames.pinned, &record)) return false;
    return record.pins.load() != 0 || record.owner.load() == nullptr;
  });
}

// True for a storage that leaves when the op does not use it, and that the op did not make.
bool Engine::may_leave_after(const ThreadFrames& frames, const StorageRecord& record) const {
  return record.block != nullptr && record.born.load(std::memory_order_relaxed) < frames.began &&
         !never_leaves(record, min_size());
}

Bytes Engine::held_by(ThreadFrames& frames) const {
  std::ranges::sort(frames.pinned);
  Bytes held{};
  const StorageRecord* last = nullptr;
  for (const StorageRecord* record : frames.pinned) {
    if (record != last && may_leave_after(frames, *record)) held += record->bytes;
    last = record;
  }
  return held;
}

bool Engine::counts_as_input(const ThreadFrames& frames, const StorageRecord& record) const {
  return std::ranges::find(frames.pinned, &record) != frames.pinned.end() &&
         may_leave_after(frames, record);
}

OutOfBudget::Facts Engine::shortage(Bytes need, Bytes short_by) {
  note_shortage(short_by);
  const char* op = this_thread_frames().op;
  OutOfBudget::Facts facts;
  facts.op = op == nullptr ? "" : op;
  facts.need = need;
  facts.have = saturating_sub(need, short_by);
  facts.budget = budget();
  facts.limit = settings_.emulate_device ? "SPILLWAY_EMULATE_DEVICE" : "SPILLWAY_BUDGET";
  if (!moves(mode())) facts.idle_mode = to_string(mode());
  ShortageWords words = framework_.shortage_words(facts.op);
  facts.also_known_as = std::move(words.also_known_as);
  facts.remedies = std::move(words.remedies);
  facts.smallest_budget = memory_.budget().limit() + short_by;
  facts.why = mover_.failure();
  std::vector<const StorageRecord*> resident;
  for (const StorageRecord* record : mover_.live()) {
    if (record->block->held() == 0) continue;
    // The storages that can leave were not tried yet, or tried in vain.
    if (!facts.why.empty() || !can_leave(*record, min_size())) resident.push_back(record);
  }
  facts.small = bytes_that_stay(memory_.live(), mover_.live(), [this](const StorageRecord& record) {
    return record.bytes < min_size();
  });
  const std::size_t count = std::min(kNamedInErrors, resident.size());
  std::ranges::partial_sort(resident, resident.begin() + static_cast<std::ptrdiff_t>(count),
                            std::ranges::greater{}, &StorageRecord::bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const StorageRecord& record = *resident[i];
    const char* made_by = record.made_by.load();
    facts.pinned.push_back(fmt::format("{:>10}  {}, made by {}", to_string(record.bytes),
                                       why_it_stays(record, min_size()),
                                       made_by == nullptr ? "unknown" : made_by));
  }
  return facts;
}

OutOfBudget::Facts Engine::shortage(const RoomRequest& request, Bytes short_by) {
  OutOfBudget::Facts facts = shortage(request.bytes, short_by);
  if (request.in_vain.empty()) return facts;
  facts.waited = fmt::format("It waited {:.1f} s for {}.",
                             static_cast<double>(request.patience.waited()) / 1e9, request.in_vain);
  return facts;
}

// Running statistics and the random state may already be written.
OutOfBudget::Facts Engine::shortage_in_op(const RoomRequest& request, Bytes short_by) {
  OutOfBudget::Facts facts = shortage(request, short_by);
  facts.begun = !facts.op.empty();
  return facts;
}

// The budget is not what was short, so nothing is said of it.
OutOfBudget::Facts Engine::refusal(Bytes need) {
  OutOfBudget::Facts facts = shortage(need, need);
  const MappingCount& mappings = memory_.arena().mappings();
  const PageMap& addresses = memory_.arena().page_map();
  facts.refused = fmt::format(
      "Tensors have up to {} of the {} mappings that a process may have (vm.max_map_count), and {} "
      "of {} of addresses (ulimit -v).",
      mappings.bound(), mappings.allowed(), to_string(addresses.carved()),
      to_string(addresses.reserved()));
  return facts;
}

}  // namespace spillway::runtime
