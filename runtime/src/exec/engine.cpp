// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/engine.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "engine_parts.hpp"
#include "recipe.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "start_resources.hpp"
#include "what_stays.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

Engine::Engine(Framework& framework, const ArenaOptions& arena)
    : Engine(framework, std::make_unique<DeviceMemory>(kNoLimit, arena)) {}

Engine::Engine(Framework& framework, std::unique_ptr<DeviceTier> memory)
    : Engine(framework, std::make_unique<RamTiers>(std::move(memory))) {}

namespace {

/// Calls `ask` with the engine's lock. A failure is noted as the thread's last, and is false.
template <class Parts, class Ask>
bool ask_under_lock(Parts& parts, const Ask& ask) {
  try {
    EngineLock lock(parts.mutex);
    return ask(lock);
  } catch (const OutOfBudget& error) {
    set_last_failure(OutOfBudget(parts.shortages.in_words(error.facts())).what());
    return false;
  } catch (const DeviceFailure& failure) {
    set_last_failure(failure);
    return false;
  }
}

std::shared_ptr<Lane> lane_of_all() {
  auto lane = std::make_shared<Lane>();
  lane->share();
  return lane;
}

}  // namespace

Engine::Engine(Framework& framework, std::unique_ptr<TierSet> tiers)
    : tiers_(std::move(tiers)),
      memory_(&tiers_->device()),
      streams_(memory_->stream_uses()),
      device_lane_(streams_ != nullptr ? lane_of_all() : nullptr),
      parts_(std::make_unique<Parts>(framework, *tiers_, rules_, steps_, recorder_)) {}

Engine::~Engine() = default;

// ---- Start and stop -----------------------------------------------------------------------------

void Engine::start(const Settings& stated) {
  if (in_child_) {
    throw UserError(
        "a process that was forked after Spillway was started can't have a budget of its own: its "
        "tensors lie in memory that the process it was forked from manages. Start it by "
        "multiprocessing's \"spawn\" instead, or fork before enable().");
  }
  Parts& parts = *parts_;
  const Settings settings = with_shared_budget(stated);
  const Mode mode = settings.effective_mode();
  const HeldResources held = [&] {
    const EngineLock lock(parts.mutex);
    parts.freed.drain();
    return HeldResources{.device = memory_->budget().used(),
                         .spool_stays = !parts.mover.spool_is_empty()};
  }();
  StartResources resources = start_resources(settings, held, *tiers_);
  Mover::Replaced replaced;  // destroyed after the lock
  arm_faults(settings.faults);

  const EngineLock lock(parts.mutex);
  // Something may have been evicted since it was looked at.
  if (!parts.mover.spool_is_empty()) resources.spool = nullptr;
  parts.budget.grant(resources.budget, settings);
  rules_.set_limits(settings, mode, streams_ != nullptr);
  for (StorageRecord* record : parts.mover.live()) record->announce();  // others may leave now
  begin_versions_of_all();  // ops may have run that nobody saw
  // A trace has to tell of every storage: what an op that is run again would read.
  const bool traces = mode == Mode::kRecord && !settings.trace_path.empty();
  memory_->set_small_objects(mode == Mode::kFuzz || traces ? SmallObjects::kBlocks
                                                           : SmallObjects::kSlabs);
  memory_->set_poison(mode == Mode::kFuzz ? Poison::kYes : Poison::kNo);
  // Record mode measures the program's own peak: nothing is cached above it. On a device that would
  // put the mapping of memory into the durations of ops.
  memory_->set_cache_slack(mode == Mode::kRecord && streams_ == nullptr ? 0.0 : 0.125);
  replaced = parts.mover.configure(
      MoverOptions{.host_budget = resources.host_budget,
                   .verify = mode == Mode::kVerify,
                   .verify_recomputed = mode == Mode::kVerify || mode == Mode::kFuzz},
      std::move(resources.spool), std::move(resources.transfers));
  if (traces) {
    recorder_.make();
    parts.op_times.measure(tiers_->op_timer());
  }
  const bool limits = settings.budget && (mode == Mode::kEnforce || mode == Mode::kVerify);
  if (limits && !in_child_) parts.budget.share(settings);
  rules_.set_mode(mode);
  rules_.set_watching(mode != Mode::kOff);
  parts.outcome.stopped_after_step = 0;
  parts.status.open(settings.status_path);
  parts.status.publish();
}

// The mode and the limit change together: a thread that waits for room, or asks for it now, must
// not meet the old limit with nothing moving any more.
void Engine::stop() {
  if (in_child_) {
    rules_.set_mode(Mode::kOff);
    return;
  }
  EngineLock lock(parts_->mutex);
  rules_.set_mode(Mode::kOff);
  memory_->set_small_objects(SmallObjects::kSlabs);
  memory_->set_poison(Poison::kNo);
  parts_->budget.withdraw();
  parts_->mutex.settled().notify_all();
  try {
    parts_->all.bring_back(lock);
    parts_->all.drop_copies();
  } catch (const DeviceFailure& failure) {  // nor can what follows be read back
    set_last_failure(failure);
  }
  rules_.set_watching(false);
  parts_->outcome.stopped_after_step = 0;
  parts_->status.publish();
}

// ---- Memory -------------------------------------------------------------------------------------

std::byte* Engine::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (in_child_) return parts_->child.allocate(bytes);
  try {
    EngineLock lock(parts_->mutex);
    return parts_->demands.allocate({bytes}, lock);
  } catch (const OutOfBudget& error) {
    throw OutOfBudget(parts_->shortages.in_words(error.facts()));
  }
}

// An op may allocate for another stream than that to which its own work goes.
std::byte* Engine::allocate(std::size_t bytes, DeviceStream stream) {
  if (streams_ == nullptr || in_child_) return allocate(bytes);
  struct Restored {
    std::optional<NumberedStream>& stream;
    const std::optional<NumberedStream> before = stream;
    ~Restored() { stream = before; }
  };
  const Restored restored{this_thread_frames().stream};
  on_stream(stream);
  return allocate(bytes);
}

void Engine::free(std::byte* pointer) noexcept {
  if (pointer == nullptr) return;
  if (in_child_) {
    parts_->child.free(pointer);
    return;
  }
  ThreadFrames* frames = this_thread_frames_if_any();
  if (frames != nullptr && frames->depth != 0) {
    if (const StorageRecord* record = find(pointer)) {
      frames->needs.freed(record->bytes);
      if (mode() == Mode::kRecord) parts_->floor.freed(*frames, *record);
    }
  }
  memory_->free_later(pointer);
}

void Engine::bind(StorageRecord& record, void* owner, const void* object) {
  const EngineLock lock(parts_->mutex);
  if (record.bound_to.load() == object) {  // another thread came first
    parts_->mutex.remains().owners.push_back(owner);
    return;
  }
  if (void* old = record.owner.exchange(owner)) parts_->mutex.remains().owners.push_back(old);
  record.bound_to.store(object);
  record.announce();
}

void Engine::replace_owner(StorageRecord& record, void* owner) {
  const EngineLock lock(parts_->mutex);
  if (void* old = record.owner.exchange(owner)) parts_->mutex.remains().owners.push_back(old);
}

// ---- Ops ----------------------------------------------------------------------------------------

bool Engine::begin_frame(const Op& op) {
  ThreadFrames& frames = this_thread_frames();
  if (frames.depth++ != 0) return false;
  if (in_child_) return true;  // no step is looked for where nothing is managed
  if (streams_ != nullptr) enter_device(frames);
  frames.shown->begin(op.name);  // first, since end_frame undoes it whatever is thrown here
  frames.op = op.name;
  frames.needs.begin(op.key);
  frames.inputs = frames.stays = frames.ended = {};
  frames.lacked_room = false;
  if (!op.between) frames.let_go_of_what_was_held_between();
  const std::uint64_t clock = steps_.begin_op();
  const bool repeated = frames.lane->begin_op(op.signature, op.boundary, clock);
  frames.began = clock;
  if (steps_.ends_step(op.boundary, repeated)) end_step();
  if (mode() == Mode::kRecord) {
    {
      const EngineLock lock(parts_->mutex);
      parts_->freed.drain();  // what was freed before the op must not hide what it allocates
      steps_.set_live_now(memory_->live());
    }
    if (TraceRecorder* const recording = recorder_.get()) {
      recording->begin_op(op.name, op.signature, now_ns());
      parts_->op_times.begin(frames);
    }
    frames.live_at_start = live_now();
    frames.peak_live = frames.live_at_start;
  }
  if (parts_->status.due(clock)) {
    const EngineLock lock(parts_->mutex);
    parts_->status.publish();
  }
  return true;
}

void Engine::end_step() {
  if (TraceRecorder* const recording = recorder_.get()) recording->boundary();
  const EngineLock lock(parts_->mutex);
  parts_->budget.follow_step(now_ns());
  const MoveStatistics& moves = parts_->mover.statistics();
  steps_.count_step(now_ns(), moves.evicted + moves.fetched);
  parts_->status.publish();
}

void Engine::stamp(StorageRecord& record, ThreadFrames& frames) {
  const std::uint64_t clock = steps_.clock();
  record.last_use.store(clock, std::memory_order_relaxed);
  record.announce();
  if (frames.depth != 1) return;  // nested touches are the outermost op's own affair
  const Bytes leaving = never_leaves(record, rules_.min_size()) ? Bytes{} : record.room;
  const Lane::NextUse next =
      frames.lane->touch(record.id, leaving, parts_->departures.time_again(record));
  std::uint64_t next_clock = 0;
  if (next.ticks == kNeverUsed) {
    next_clock = std::numeric_limits<std::uint64_t>::max();
  } else if (next.ticks != kUnknownUse) {
    next_clock = clock + next.ticks;
  }
  record.next_use.store(next_clock, std::memory_order_relaxed);
  record.leaves.store(next.leaves, std::memory_order_relaxed);
}

std::shared_ptr<Lane> Engine::share_lane() {
  ThreadFrames& frames = this_thread_frames();
  SPILLWAY_CHECK(frames.depth == 0, "a lane is shared between ops");
  frames.lane->share();
  return frames.lane;
}

void Engine::join_lane(std::shared_ptr<Lane> lane) {
  ThreadFrames& frames = this_thread_frames();
  SPILLWAY_CHECK(frames.depth == 0, "a lane is joined between ops");
  if (lane == nullptr) lane = frames.own_lane;
  frames.lane = std::move(lane);
}

bool Engine::use(StorageRecord& record, Access access) {
  if (in_child_) return parts_->child.use(record);
  ThreadFrames& frames = this_thread_frames();
  frames.pin(record);
  if (frames.depth == 1) frames.inputs += record.bytes;
  stamp(record, frames);
  if (TraceRecorder* const recording = recorder_.get()) {
    recording->use(record.id, record.bytes, access == Access::kWrite, record.made_by.load());
  }
  if (access == Access::kWrite) {
    frames.writing.push_back({frames.depth, &record});
    if (!begin_version(record)) return false;
  }
  const ResidencyState state = record.state.load();
  const bool here = state == ResidencyState::kExempt ||
                    (state == ResidencyState::kResident &&
                     (access == Access::kRead || !record.has_copy.load(std::memory_order_relaxed)));
  if (!here && !make_accessible(record, access)) return false;
  return streams_ == nullptr || begin_use(record, frames, access);
}

bool Engine::make_accessible(StorageRecord& record, Access access) {
  return ask_under_lock(
      *parts_, [&](EngineLock& lock) { return parts_->demands.settle(record, access, lock); });
}

// The block is the storage's for as long as the op has it; pins may outlive that.
bool Engine::begin_use(StorageRecord& record, ThreadFrames& frames, Access access) {
  try {
    // The program knows nothing of the reads by ops that were run again.
    if (access == Access::kWrite && record.read_unseen.exchange(false)) {
      streams_->order_after_uses(*record.block, *frames.stream);
    }
    streams_->begin_use(*record.block, *frames.stream);
  } catch (const DeviceFailure& failure) {
    set_last_failure(failure);
    return false;
  }
  frames.launched.push_back(record.block);
  return true;
}

// Who has an address may give it to work of any stream.
bool Engine::begin_use_anywhere(StorageRecord& record) {
  if (streams_ == nullptr) return true;
  try {
    streams_->begin_use_anywhere(*record.block);
  } catch (const DeviceFailure& failure) {
    set_last_failure(failure);
    return false;
  }
  return true;
}

// A thread that never said where its work goes uses the default stream.
void Engine::enter_device(ThreadFrames& frames) {
  if (frames.lane != device_lane_) frames.lane = device_lane_;
  if (!frames.stream) frames.stream = streams_->number(DeviceStream{0});
}

void Engine::on_stream(DeviceStream stream) {
  if (streams_ == nullptr) return;
  ThreadFrames& frames = this_thread_frames();
  if (!frames.stream || frames.stream->handle != stream) frames.stream = streams_->number(stream);
}

void Engine::record_stream(const void* pointer, DeviceStream stream) {
  DeviceBlock* const block = memory_->find(pointer);
  if (streams_ == nullptr || block == nullptr) return;
  const NumberedStream numbered = streams_->number(stream);
  streams_->begin_use(*block, numbered);
  streams_->end_use(*block, numbered);
  streams_->launched(numbered, {});
}

bool Engine::inputs_ready() {
  const Mode mode = this->mode();
  ThreadFrames& frames = this_thread_frames();
  if (in_child_ || frames.depth != 1) return true;
  if (frames.lacked_room) {
    parts_->fit.say_whole_need(frames);
    return false;
  }
  if (mode == Mode::kRecord) {
    const EngineLock lock(parts_->mutex);
    parts_->freed.drain();
    parts_->floor.begin(frames);
    return true;
  }
  if (mode != Mode::kFuzz) {
    if (!parts_->fit.will_fit(frames)) return false;
    if (mode != Mode::kOff) parts_->ahead.look_ahead(*frames.lane);
    return true;
  }
  EngineLock lock(parts_->mutex);
  if (this->mode() != Mode::kFuzz) return true;  // stopped meanwhile
  parts_->freed.drain();
  parts_->all.evict(lock);
  return true;
}

// ---- How storages are made ----------------------------------------------------------------------

// Raised first and looked at afterwards: see Mover::drop. What will be made from the bytes is made
// before they are written.
bool Engine::begin_version(StorageRecord& record) {
  record.version.fetch_add(1);
  record.again.store(0, std::memory_order_relaxed);
  if (record.held.load() == 0) return true;
  return ask_under_lock(*parts_, [&](EngineLock& lock) {
    return parts_->recomputation.bring_back(&record, parts_->demands, lock);
  });
}

void Engine::forget_all_makings() {
  const EngineLock lock(parts_->mutex);
  if (!in_child_) begin_versions_of_all();
}

bool Engine::any_dropped() const { return parts_->mover.dropped() != 0; }

void Engine::make_dropped(StorageRecord& record) {
  if (in_child_ || record.state.load() != ResidencyState::kDropped) return;
  record.pins.fetch_add(1);
  static_cast<void>(make_accessible(record, Access::kRead));
  record.unpin();
}

void Engine::end_writes() {
  ThreadFrames& frames = this_thread_frames();
  while (!frames.writing.empty() && frames.writing.back().depth >= frames.depth) {
    frames.writing.back().record->version.fetch_add(1);
    frames.writing.pop_back();
  }
}

void Engine::begin_versions_of_all() {
  for (StorageRecord* record : parts_->mover.live()) record->version.fetch_add(1);
}

void Engine::made(std::span<StorageRecord* const> results, const std::shared_ptr<Making>& by,
                  std::span<StorageRecord* const> sources) {
  if (in_child_) return;
  const EngineLock lock(parts_->mutex);
  std::vector<Making::Source> known;
  known.reserve(sources.size());
  for (StorageRecord* source : sources) known.push_back(source_of(*source));
  by->set_sources(std::move(known));
  std::uint32_t output = 0;
  for (StorageRecord* result : results) {
    if (result != nullptr) parts_->mover.set_made(*result, {.by = by, .output = output});
    ++output;
  }
}

Making::Source Engine::before_write(StorageRecord& record) {
  const EngineLock lock(parts_->mutex);
  return source_of(record);
}

void Engine::made_over(StorageRecord& record, Making::Source before, std::shared_ptr<Making> by,
                       std::span<StorageRecord* const> others) {
  if (in_child_) return;
  const EngineLock lock(parts_->mutex);
  std::vector<Making::Source> known;
  known.reserve(others.size() + 1);
  known.push_back(std::move(before));
  for (StorageRecord* source : others) known.push_back(source_of(*source));
  by->set_sources(std::move(known));
  by->overwrites(0);
  parts_->mover.set_made(record, {.by = std::move(by), .output = 0});
}

void Engine::forget_making(StorageRecord& record) {
  if (record.again.load(std::memory_order_relaxed) == 0 || in_child_) return;
  const EngineLock lock(parts_->mutex);
  parts_->mover.set_made(record, {});
}

void Engine::produced(StorageRecord& record, const char* made_by) {
  if (!in_child_) {
    ThreadFrames& frames = this_thread_frames();
    if (frames.depth > 1) {
      frames.pin(record);
    } else {
      frames.hold_output(record);
    }
    if (streams_ != nullptr) streams_->end_use(*record.block, *frames.stream);
    stamp(record, frames);
    if (TraceRecorder* const recording = recorder_.get()) {
      recording->made(record.id, record.bytes, record.made_by.load(), frames.depth > 1);
    }
  }
  if (made_by != nullptr && record.made_by.load(std::memory_order_relaxed) == nullptr) {
    record.made_by.store(made_by, std::memory_order_relaxed);
  }
}

Bytes Engine::end_frame() {
  ThreadFrames& frames = this_thread_frames();
  end_writes();
  if (frames.depth == 0 || --frames.depth != 0 || in_child_) return {};
  if (mode() == Mode::kRecord) {
    const Bytes grown = saturating_sub(frames.peak_live, frames.live_at_start);
    if (TraceRecorder* const recording = recorder_.get()) {
      parts_->op_times.end(frames, *recording, recording->end_op(now_ns(), grown));
    }
    const EngineLock lock(parts_->mutex);
    parts_->floor.end(frames, grown);
  }
  frames.needs.end();
  if (streams_ != nullptr) {
    for (DeviceBlock* block : frames.launched) streams_->end_use(*block, *frames.stream);
    frames.launched.clear();
    streams_->launched(*frames.stream, frames.needs.most());
  }
  ThreadFrames::unpin_all(frames.pinned);
  frames.op = nullptr;
  frames.shown->end();
  parts_->waits.frame_ended();
  return frames.needs.most();
}

void Engine::push_out(bool outputs) {
  ThreadFrames& frames = this_thread_frames();
  if (mode() != Mode::kFuzz || in_child_ || frames.depth != 0) return;
  if (outputs) {
    ThreadFrames::unpin_all(frames.outputs);
    ThreadFrames::unpin_all(frames.touched);
  }
  EngineLock lock(parts_->mutex);
  parts_->freed.drain();
  parts_->all.evict(lock);
}

// ---- Between ops --------------------------------------------------------------------------------

bool Engine::touch(StorageRecord& record, Access access) {
  if (in_child_) return parts_->child.use(record);
  ThreadFrames& frames = this_thread_frames();
  frames.hold_touched(record);
  record.last_use.store(steps_.clock(), std::memory_order_relaxed);
  record.announce();
  if (access == Access::kWrite && !begin_version(record)) return false;
  const bool here = record.state.load() == ResidencyState::kResident &&
                    (access == Access::kRead || !record.has_copy.load());
  return (here || make_accessible(record, access)) && begin_use_anywhere(record);
}

bool Engine::give_address(StorageRecord& record) {
  if (in_child_) return parts_->child.use(record);
  ThreadFrames& frames = this_thread_frames();
  frames.hold_address(record);
  record.last_use.store(steps_.clock(), std::memory_order_relaxed);
  record.announce();
  if (begin_version(record) && make_accessible(record, Access::kWrite) &&
      begin_use_anywhere(record)) {
    return true;
  }
  frames.let_go_of_address(record);
  if (last_failure_kind() == FailureKind::kShortage && !frames.addresses.empty()) {
    set_last_failure(last_failure() + said_of_addresses(frames));
  }
  return false;
}

bool Engine::keep(StorageRecord& record) {
  if (in_child_) return parts_->child.use(record);
  record.pins.fetch_add(1);
  // Nothing shows what is written while it is kept, so no copy made before may count afterwards.
  const bool ready = begin_version(record) && make_accessible(record, Access::kWrite) &&
                     begin_use_anywhere(record);
  if (ready) {
    const EngineLock lock(parts_->mutex);
    ++record.kept;
    record.announce();
  }
  record.unpin();
  return ready;
}

void Engine::release(StorageRecord& record) {
  const EngineLock lock(parts_->mutex);
  if (record.kept != 0) --record.kept;
  record.version.fetch_add(1);  // it may have been written meanwhile
  record.announce();
}

bool Engine::exempt(StorageRecord& record) {
  if (in_child_) return parts_->child.use(record);
  if (record.state.load() == ResidencyState::kExempt) return true;
  if (!keep(record)) return false;
  const EngineLock lock(parts_->mutex);
  parts_->mover.exempt(record);
  return true;
}

void Engine::begin_export(StorageRecord& record) {
  expect_unseen_writes(record);
  record.pins.fetch_add(1);
  static_cast<void>(begin_use_anywhere(record));
}

void Engine::end_export(StorageRecord& record) noexcept { record.unpin(); }

void Engine::expect_unseen_writes(StorageRecord& record) {
  record.always_dirty.store(true);
  if (begin_version(record)) return;
  const EngineLock lock(parts_->mutex);
  parts_->recomputation.give_up(&record);
}

void Engine::show_addresses(bool shown) {
  if (in_child_) return;
  EngineLock lock(parts_->mutex);
  parts_->freed.drain();
  parts_->waits.for_all_copies(lock);
  parts_->mover.show_addresses(shown);
}

// ---- Ops that are not seen ----------------------------------------------------------------------

bool Engine::prepare_for_unseen_ops() {
  {
    const EngineLock lock(parts_->mutex);
    parts_->freed.drain();
    if (!parts_->all.are_here()) return false;
    parts_->all.drop_copies();
    begin_versions_of_all();
  }
  return wait_for_unseen_ops();
}

// Without the lock, since it may take as long as all that was launched.
bool Engine::wait_for_unseen_ops() {
  if (streams_ == nullptr || in_child_) return true;
  try {
    streams_->wait_for_all();
  } catch (const DeviceFailure& failure) {  // the next call that needs the device says it, too
    set_last_failure(failure);
    return false;
  }
  return true;
}

// What began to leave before it is blind is away for the op, nothing follows it; but what was
// dropped is made before the op may write what it is made from.
Engine::Reach::Reach(Engine& engine) : engine_(&engine) {
  if (engine.in_child_) return;
  Parts& parts = *engine.parts_;
  const Departures::Pause pause(parts.departures);
  EngineLock lock(parts.mutex);
  bool all_made = false;
  try {
    all_made = parts.recomputation.bring_back(nullptr, parts.demands, lock);
  } catch (const OutOfBudget&) {
    all_made = false;
  }
  if (!all_made) parts.recomputation.give_up(nullptr);
  engine.rules_.begin_reach();
  parts.freed.drain();
  parts.all.drop_copies();
  engine.begin_versions_of_all();
  if (engine.streams_ == nullptr) return;
  try {
    engine.streams_->begin_unknown_uses(*this_thread_frames().stream);
  } catch (const DeviceFailure&) {
    engine.rules_.end_reach();
    throw;
  }
}

Engine::Reach::~Reach() {
  if (engine_ == nullptr || engine_->in_child_) return;
  if (engine_->streams_ != nullptr) {
    engine_->streams_->end_unknown_uses(*this_thread_frames().stream);
  }
  engine_->rules_.end_reach();
}

void Engine::note_rest(bool resting) {
  const EngineLock lock(parts_->mutex);
  parts_->status.note_rest(resting);
}

// The steps of optimizers alone are known without ops: what repeated before is not counted on.
void Engine::note_unwatched_step() {
  const EngineLock lock(parts_->mutex);
  if (in_child_ || parts_->outcome.stopped_after_step == 0 || !steps_are_marked()) return;
  steps_.count_unwatched_step(now_ns());
  parts_->status.note_unwatched_step();
}

// ---- What is told -------------------------------------------------------------------------------

std::optional<Trace> Engine::trace() const {
  TraceRecorder* const recording = recorder_.get();
  if (recording == nullptr) return std::nullopt;
  parts_->op_times.settle(*recording);
  return recording->trace();
}

void Engine::set_unmanaged(Bytes bytes, Bytes expected) {
  if (in_child_) return;
  try {
    EngineLock lock(parts_->mutex);
    parts_->budget.set_unmanaged(bytes, expected);
    parts_->demands.reach_limit(lock);
  } catch (const DeviceFailure& failure) {  // the next call that needs the device says it, too
    set_last_failure(failure);
  }
}

Bytes Engine::budget() const { return parts_->budget.limit(); }
Bytes Engine::reach() const { return parts_->budget.reach(); }
bool Engine::waits_for_ops() const { return parts_->waits.any_for_frames(); }
const ForkGate& Engine::fork_gate() const { return parts_->mutex.fork_gate(); }

std::string Engine::budget_page() {
  const EngineLock lock(parts_->mutex);
  return parts_->budget.page();
}

void Engine::note_end(Ending ending, bool unwritten) {
  const EngineLock lock(parts_->mutex);
  if (in_child_) return;
  parts_->freed.drain();
  parts_->status.note_end(ending, unwritten);
}

Engine::DeviceBytes Engine::device_bytes() {
  const EngineLock lock(parts_->mutex);
  return {.held = memory_->budget().used(),
          .opening = streams_ != nullptr ? streams_->bytes_opening() : Bytes{}};
}

Statistics Engine::statistics() {
  const EngineLock lock(parts_->mutex);
  if (!in_child_) {
    parts_->freed.drain();
    steps_.set_live_now(memory_->live());
  }
  return parts_->counters.read_all();
}

void Engine::release_idle() {
  const EngineLock lock(parts_->mutex);
  if (in_child_) return;
  parts_->freed.drain();
  memory_->release_idle();
}

void Engine::reset_peak() {
  const EngineLock lock(parts_->mutex);
  parts_->freed.drain();
  // On a card what is idle may be in use by the card still: nobody who counts waits for that.
  if (streams_ == nullptr) memory_->release_idle();
  memory_->reset_peak();
  parts_->floor.reset();
}

void Engine::allow_peer(int ordinal) {
  const EngineLock lock(parts_->mutex);
  if (streams_ != nullptr && !in_child_) streams_->allow_peer(ordinal);
}

void Engine::begin_captures() {
  if (streams_ != nullptr && !in_child_) streams_->begin_captures();
}

void Engine::end_captures() noexcept {
  if (streams_ != nullptr && !in_child_) streams_->end_captures();
}

// ---- Forks --------------------------------------------------------------------------------------

void Engine::before_fork() {
  Parts& parts = *parts_;
  if (!in_child_) make_all_dropped();
  if (!in_child_) parts.mutex.fork_gate().close();
  parts.mutex.mutex().lock();
  if (in_child_) return;
  std::unique_lock lock(parts.mutex.mutex(), std::adopt_lock);
  // Direct I/O in flight over a fork may land in the wrong process's pages.
  while (parts.mover.in_flight() != 0) parts.mutex.settled().wait(lock);
  parts.freed.drain();
  memory_->before_fork();
  lock.release();
  parts.mover.transfers().before_fork();
  if (parts.mover.spool() != nullptr) parts.fork_pipe.before_fork(*parts.mover.spool());
}

// A child cannot run the ops of its parent's threads.
void Engine::make_all_dropped() {
  Parts& parts = *parts_;
  parts.departures.pause();
  try {
    EngineLock lock(parts.mutex);
    static_cast<void>(parts.recomputation.bring_back(nullptr, parts.demands, lock));
    while (parts.mover.recomputations() != 0) parts.waits.for_another_thread(lock);
  } catch (const std::exception&) {
    // The child says so where it needs one of them.
  }
}

void Engine::after_fork_in_parent() {
  if (!in_child_) parts_->departures.resume();
  parts_->fork_pipe.after_fork_in_parent();
  parts_->mutex.mutex().unlock();
  if (!in_child_) parts_->mutex.fork_gate().open();
}

void Engine::after_fork_in_child() {
  Parts& parts = *parts_;
  in_child_ = true;
  parts.fork_pipe.after_fork_in_child();
  parts.status.abandon_in_child();
  parts.budget.abandon_in_child();
  recorder_.abandon_in_child();
  parts.waits.abandon_in_child();
  parts.mutex.fork_gate().open_in_child();
  parts.mover.abandon_in_child();
  parts.mutex.mutex().unlock();
}

}  // namespace spillway::runtime
