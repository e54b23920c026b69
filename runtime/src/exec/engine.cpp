// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/engine.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "engine_lock.hpp"
#include "room_request.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory_probe.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

// Reading what the machine has takes a tenth of a millisecond, which steps may be as short as.
constexpr TimeNs kFollowEvery = 100'000'000;

std::uint32_t local_world_size() {
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  const long value = text == nullptr ? 1 : std::strtol(text, nullptr, 10);
  return value > 0 && value < 4096 ? static_cast<std::uint32_t>(value) : 1;
}

}  // namespace

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Engine::Engine(Framework& framework, const ArenaOptions& arena)
    : framework_(framework),
      memory_(kNoLimit, arena),
      mover_(mutex_, settled_, memory_, framework),
      started_(now_ns()) {}

// A spool that holds something stays, with its directory and budget, until it is empty.
std::shared_ptr<Spool> Engine::open_spool(const Settings& settings) {
  const MachineMemory disk = measure_disk(settings.spool_dir, local_world_size());
  const Bytes budget =
      settings.disk_budget ? resolve_budget(*settings.disk_budget, disk, "disk budget") : Bytes{0};
  {
    const Lock lock(*this);
    drain_freed();
    if (!mover_.spool_is_empty()) return nullptr;
  }
  // The program may change its directory before the file is opened.
  const std::string directory =
      settings.spool_dir.empty() ? "" : std::filesystem::absolute(settings.spool_dir).string();
  return std::make_shared<Spool>(SpoolOptions{
      .directory = directory, .budget = budget, .warn = warn_once, .sharers = local_world_size()});
}

void Engine::start(const Settings& stated) {
  if (in_child_) {
    throw UserError(
        "a process that was forked after Spillway was started can't have a budget of its own: its "
        "tensors lie in memory that the process it was forked from manages. Start it by "
        "multiprocessing's \"spawn\" instead, or fork before enable().");
  }
  const Settings settings = with_shared_budget(stated);
  const Mode mode = settings.effective_mode();
  const auto held = [this] {
    const Lock lock(*this);
    return memory_.budget().used();
  };
  const MachineMemory machine = measure_memory(local_world_size(), held());
  Bytes budget = kNoLimit;
  if (settings.emulate_device) {
    budget = *settings.emulate_device;
  } else if (settings.budget && mode != Mode::kOff) {
    budget = resolve_budget(*settings.budget, machine, "budget");
  }
  Bytes host_budget{};
  if (settings.emulate_device) {
    host_budget = settings.host_budget
                      ? resolve_budget(*settings.host_budget, machine, "host budget")
                      : machine.total;
  }
  std::shared_ptr<Spool> spool = moves(mode) ? open_spool(settings) : nullptr;
  std::unique_ptr<Transfers> transfers = moves(mode) ? make_transfers(settings.io) : nullptr;
  arm_faults(settings.faults);

  Lock lock(*this);
  // Something may have been evicted since it was looked at.
  if (spool != nullptr && !mover_.spool_is_empty()) spool = nullptr;
  settings_ = settings;
  granted_ = budget;
  set_budget(budget);
  // In fuzz mode every allocation moves, however small: that is what it is for.
  min_size_.store(mode == Mode::kFuzz ? 1 : settings.min_size.count);
  for (StorageRecord* record : mover_.live()) record->announce();  // other sizes may leave now
  // A trace has to tell of every storage: what an op that is run again would read.
  const bool traces = mode == Mode::kRecord && !settings.trace_path.empty();
  memory_.set_small_objects(mode == Mode::kFuzz || traces ? SmallObjects::kBlocks
                                                          : SmallObjects::kSlabs);
  memory_.set_poison(mode == Mode::kFuzz ? Poison::kYes : Poison::kNo);
  // Record mode measures the program's own peak: nothing is cached above it.
  memory_.set_cache_slack(mode == Mode::kRecord ? 0.0 : 0.125);
  mover_.configure(MoverOptions{.host_budget = host_budget, .verify = mode == Mode::kVerify},
                   std::move(spool), std::move(transfers));
  if (traces && recorder() == nullptr) {
    recorder_.store(std::make_unique<TraceRecorder>().release());  // lives as long as the process
  }
  sharing_ = false;
  const bool limits = settings.budget && (mode == Mode::kEnforce || mode == Mode::kVerify);
  if (limits && !in_child_) begin_sharing(settings);
  mode_.store(mode);
  watching_.store(mode != Mode::kOff);
  outcome_.stopped_after_step = 0;
  if (!settings.status_path.empty() && slot_.load() == nullptr) {
    status_ = StatusMapping::open(settings.status_path);
    slot_.store(status_.claim_slot());
  }
  publish();
}

std::byte* Engine::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (in_child_) return allocate_in_child(bytes);
  Lock lock(*this);
  if (sharing_ && shared_.changed()) follow_shared();
  Overbooking overbooking = Overbooking::kRefuse;
  RoomRequest request = request_for({bytes});
  for (;;) {
    drain_freed();
    const Allocation result = memory_.allocate({bytes}, overbooking);
    if (result.pointer != nullptr) {
      if (result.block != nullptr) {
        StorageRecord& record = mover_.create(*result.block, {bytes});
        record.made_by.store(this_thread_frames().op, std::memory_order_relaxed);
        const std::uint64_t now = clock_.load(std::memory_order_relaxed);
        record.born.store(now, std::memory_order_relaxed);
        record.maker.store(&this_thread_frames(), std::memory_order_relaxed);
        record.last_use.store(now, std::memory_order_relaxed);
        if (TraceRecorder* const recording = recorder()) {
          recording->allocated(record.id, record.bytes);
        }
      }
      const Bytes live = memory_.live();
      live_now_.store(live.count, std::memory_order_relaxed);
      if (live.count > step_peak_.load(std::memory_order_relaxed)) {
        step_peak_.store(live.count, std::memory_order_relaxed);
      }
      ThreadFrames& frames = this_thread_frames();
      frames.peak_live = std::max(frames.peak_live, live);
      frames.peak_demand = std::max(frames.peak_demand, live + mover_.away());
      if (result.block != nullptr) frames.needs.allocated({bytes});
      keep_headroom();
      if (sharing_) shared_.publish(memory_.budget().used());
      if (StatusSlot* const slot = slot_.load(std::memory_order_relaxed)) publish_use(*slot);
      return result.pointer;
    }
    if (result.short_by.count == 0 || overbooking == Overbooking::kAllow) break;
    if (!make_room(result.short_by, request, lock)) {
      if (take_back()) continue;
      if (!may_overbook()) {
        this_thread_frames().needs.fail();
        throw OutOfBudget(shortage_in_op(request, result.short_by));
      }
      overbooking = Overbooking::kAllow;
    }
  }
  throw OutOfBudget(refusal({bytes}));
}

bool Engine::may_overbook() const {
  return settings_.overbook || blind() || steps() < forgiven_step_.load(std::memory_order_relaxed);
}

void Engine::free(std::byte* pointer) noexcept {
  if (pointer == nullptr) return;
  if (in_child_) {
    // The parent's memory is not ours to reuse; what was allocated here came from malloc.
    if (memory_.find(pointer) != nullptr) return;
    shared_.forked_hold(-static_cast<std::int64_t>(::malloc_usable_size(pointer)));
    std::free(pointer);
    return;
  }
  ThreadFrames* frames = this_thread_frames_if_any();
  if (frames != nullptr && frames->depth != 0) {
    if (const StorageRecord* record = find(pointer)) {
      frames->needs.freed(record->bytes);
      if (mode() == Mode::kRecord && counts_as_input(*frames, *record)) {
        frames->ended += record->bytes;
      }
    }
  }
  memory_.free_later(pointer);
}

void Engine::drain_freed() {
  memory_.take_freed(freed_);
  for (Block* block : freed_) {
    if (TraceRecorder* const recording = recorder()) recording->freed(block->record->id);
    mover_.die(*block->record, dead_owners_);
  }
  freed_.clear();
}

void Engine::bind(StorageRecord& record, void* owner, const void* object) {
  const Lock lock(*this);
  if (record.bound_to.load() == object) {  // another thread came first
    dead_owners_.push_back(owner);
    return;
  }
  if (void* old = record.owner.exchange(owner)) dead_owners_.push_back(old);
  record.bound_to.store(object);
  record.announce();
}

bool Engine::begin_frame(const Op& op) {
  ThreadFrames& frames = this_thread_frames();
  if (frames.depth++ != 0) return false;
  if (in_child_) return true;    // no step is looked for where nothing is managed
  frames.shown->begin(op.name);  // first, since end_frame undoes it whatever is thrown here
  frames.op = op.name;
  frames.needs.begin(op.key);
  frames.inputs = frames.stays = frames.ended = {};
  frames.lacked_room = false;
  if (!op.between) frames.let_go_of_what_was_held_between();
  const std::uint64_t clock = clock_.fetch_add(1, std::memory_order_relaxed) + 1;
  frames.recogniser.note_demand(std::exchange(frames.peak_demand, {}).count);
  frames.recogniser.begin_op(op.signature, op.boundary);
  frames.began = clock;
  note_boundary(frames, op.boundary);
  if (mode() == Mode::kRecord) {
    {
      const Lock lock(*this);  // what was freed before the op must not hide what it allocates
      drain_freed();
      live_now_.store(memory_.live().count, std::memory_order_relaxed);
    }
    if (TraceRecorder* const recording = recorder()) recording->begin_op(op.name, now_ns());
    frames.live_at_start = live_now();
    frames.peak_live = frames.live_at_start;
  }
  if (slot_.load(std::memory_order_relaxed) != nullptr && rhythm_.due(clock)) {
    const Lock lock(*this);
    publish();
  }
  return true;
}

void Engine::stamp(StorageRecord& record, ThreadFrames& frames) {
  const std::uint64_t clock = clock_.load(std::memory_order_relaxed);
  record.last_use.store(clock, std::memory_order_relaxed);
  record.announce();
  if (frames.depth != 1) return;  // nested touches are the outermost op's own affair
  const std::uint64_t next = frames.recogniser.touch(to_value(record.id));
  std::uint64_t next_clock = 0;
  if (next == kNeverUsed) {
    next_clock = std::numeric_limits<std::uint64_t>::max();
  } else if (next != kUnknownUse) {
    next_clock = clock + (next - frames.recogniser.op_index());
  }
  record.next_use.store(next_clock, std::memory_order_relaxed);
}

bool Engine::use(StorageRecord& record, Access access) {
  if (in_child_) return use_in_child(record, access);
  ThreadFrames& frames = this_thread_frames();
  frames.pin(record);
  if (frames.depth == 1) frames.inputs += record.bytes;
  stamp(record, frames);
  if (TraceRecorder* const recording = recorder()) {
    recording->use(record.id, record.bytes, access == Access::kWrite, record.made_by.load());
  }
  const ResidencyState state = record.state.load();
  if (state == ResidencyState::kResident &&
      (access == Access::kRead || !record.has_copy.load(std::memory_order_relaxed))) {
    return true;
  }
  return state == ResidencyState::kExempt || use_slow(record, access);
}

bool Engine::use_slow(StorageRecord& record, Access access) {
  Lock lock(*this);
  return settle(record, access, lock);
}

bool Engine::settle(StorageRecord& record, Access access, Lock& lock) {
  Overbooking overbooking = Overbooking::kRefuse;
  RoomRequest room = request_for(record.bytes);
  for (;;) {
    const Mover::Request request = mover_.request(record, access, overbooking);
    switch (request.outcome) {
      case Mover::Outcome::kReady:
        return true;
      case Mover::Outcome::kFailed:
        set_last_failure("Spillway: " + mover_.failure(), FailureKind::kUnreadable);
        return false;
      case Mover::Outcome::kPending: {
        const TimeNs begin = now_ns();
        wait_for_copies(lock.native());
        stall_ns_ += now_ns() - begin;
        break;
      }
      case Mover::Outcome::kNeedsRoom:
        if (request.short_by.count != 0 && make_room(request.short_by, room, lock)) break;
        if (request.short_by.count != 0 && take_back()) break;
        if (request.short_by.count == 0) {
          this_thread_frames().needs.fail();
          set_last_failure(OutOfBudget(refusal(record.bytes)).what());
          return false;
        }
        if (!may_overbook()) {
          this_thread_frames().needs.fail();
          this_thread_frames().lacked_room = true;
          set_last_failure(OutOfBudget(shortage(room, request.short_by)).what());
          return false;
        }
        overbooking = Overbooking::kAllow;
        break;
    }
  }
}

bool Engine::inputs_ready() {
  const Mode mode = this->mode();
  ThreadFrames& frames = this_thread_frames();
  if (in_child_ || frames.depth != 1) return true;
  if (frames.lacked_room) {
    say_whole_need(frames);
    return false;
  }
  if (mode == Mode::kRecord) {
    frames.stays = stays_beside(frames);
    return true;
  }
  if (mode != Mode::kFuzz) {
    if (!will_fit(frames)) return false;
    if (mode != Mode::kOff) look_ahead(frames);
    return true;
  }
  Lock lock(*this);
  if (this->mode() != Mode::kFuzz) return true;  // stopped meanwhile
  drain_freed();
  evict_everything(lock);
  return true;
}

void Engine::produced(StorageRecord& record) {
  if (in_child_) return;
  ThreadFrames& frames = this_thread_frames();
  if (frames.depth > 1) {
    frames.pin(record);
  } else {
    frames.hold_output(record);
  }
  stamp(record, frames);
  if (TraceRecorder* const recording = recorder()) {
    recording->made(record.id, record.bytes, record.made_by.load(), frames.depth > 1);
  }
}

Bytes Engine::end_frame() {
  ThreadFrames& frames = this_thread_frames();
  if (frames.depth == 0 || --frames.depth != 0 || in_child_) return {};
  if (mode() == Mode::kRecord) {
    const Bytes grown = saturating_sub(frames.peak_live, frames.live_at_start);
    if (TraceRecorder* const recording = recorder()) recording->end_op(now_ns(), grown);
    // Working set: distinct inputs and the most that was allocated inside, beside what stays.
    // `grown` has what was given back inside taken off, inputs too: so they count, ended or not.
    const Lock lock(*this);
    floor_ = std::max(floor_, frames.stays + held_by(frames) + frames.ended + grown);
  }
  frames.needs.end();
  ThreadFrames::unpin_all(frames.pinned);
  frames.op = nullptr;
  frames.shown->end();
  if (waiting_.load(std::memory_order_relaxed) != 0) settled_.notify_all();
  return frames.needs.most();
}

bool Engine::touch(StorageRecord& record, Access access) {
  if (in_child_) return use_in_child(record, access);
  ThreadFrames& frames = this_thread_frames();
  frames.hold_touched(record);
  record.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record.announce();
  if (record.state.load() == ResidencyState::kResident &&
      (access == Access::kRead || !record.has_copy.load())) {
    return true;
  }
  return use_slow(record, access);
}

bool Engine::keep(StorageRecord& record) {
  if (in_child_) return use_in_child(record, Access::kRead);
  record.pins.fetch_add(1);
  // Nothing shows what is written while it is kept, so no copy made before may count afterwards.
  const bool ready = use_slow(record, Access::kWrite);
  if (ready) {
    const Lock lock(*this);
    ++record.kept;
    record.announce();
  }
  record.unpin();
  return ready;
}

void Engine::release(StorageRecord& record) {
  const Lock lock(*this);
  if (record.kept != 0) --record.kept;
  record.announce();
}

bool Engine::exempt(StorageRecord& record) {
  if (in_child_) return use_in_child(record, Access::kWrite);
  if (record.state.load() == ResidencyState::kExempt) return true;
  if (!keep(record)) return false;
  const Lock lock(*this);
  mover_.exempt(record);
  return true;
}

// A step ends with an optimizer's step where the program has optimizers that say so, else with each
// repetition that the recogniser found.
void Engine::note_boundary(ThreadFrames& frames, bool optimizer_step) {
  const std::uint64_t repetitions = frames.recogniser.steps_completed();
  const bool repeated = std::exchange(frames.steps_seen, repetitions) != repetitions;
  // The repetition before the first optimizer step was the making of the model.
  if (optimizer_step && !boundaries_seen_.exchange(true)) {
    steps_.store(0);
    forgiven_step_.store(0);  // it named a step of the old count
  }
  if (!optimizer_step && (!repeated || boundaries_seen_.load(std::memory_order_relaxed))) return;
  if (TraceRecorder* const recording = recorder()) recording->boundary();
  note_step();
}

// The memory of other processes and this one's unmanaged memory change: `auto` follows at each
// step.
void Engine::follow_machine() {
  if (!settings_.budget || settings_.budget->kind != BudgetSpec::Kind::kAuto) return;
  const TimeNs now = now_ns();
  if (now < follow_again_) return;
  follow_again_ = now + kFollowEvery;
  const MachineMemory machine = measure_memory(local_world_size(), memory_.budget().used());
  try {
    granted_ = resolve_budget(*settings_.budget, machine, "budget");
    set_budget(granted_);
    if (sharing_) shared_.lead(granted_);
  } catch (const UserError&) {
    // Nothing would be left for tensors: the limit stays what it was.
  }
}

void Engine::note_step() {
  const Lock lock(*this);
  follow_machine();
  if (sharing_) {
    shared_.drop_claims_of_dead_if_due();
    follow_shared();
  }
  const TimeNs now = now_ns();
  if (step_started_ != 0) last_step_ns_ = now - step_started_;
  step_started_ = now;
  const MoveStatistics& moves = mover_.statistics();
  const Bytes moved = moves.evicted + moves.fetched;
  last_step_moved_ = moved - moved_at_step_;
  moved_at_step_ = moved;
  progress_.step_counted(clock_.load(std::memory_order_relaxed) - 1);
  steps_.fetch_add(1, std::memory_order_relaxed);
  last_step_peak_.store(step_peak_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  step_peak_.store(live_now_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  publish();
}

}  // namespace spillway::runtime
