// SPDX-License-Identifier: Apache-2.0
// Holds the budget: the one object an adapter talks to.
//
//     adapter                      engine
//     allocator.allocate  ------>  allocate      evicts until the request fits
//     allocator.free      ------>  free          lock-free
//     op begins           ------>  begin_frame, use (each input), inputs_ready
//     op ends             ------>  produced (each output), end_frame
//
// Lock order: a framework lock (Python's GIL) before the engine's, never the reverse. Under the
// engine's lock nothing is awaited but its own condition, no framework object is destroyed and no
// deleter runs. One engine per process; it is never destroyed, since storages may outlive main.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/fork_gate.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/look_ahead.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/out_of_budget.hpp"
#include "spillway/runtime/exec/run_outcome.hpp"
#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/exec/status_rhythm.hpp"
#include "spillway/runtime/exec/step_progress.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/runtime/memory/shared_budget.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {

struct RoomRequest;

/// Why a storage cannot be used.
enum class FailureKind : bool {
  kShortage,    ///< no room under the budget, or the kernel has none
  kUnreadable,  ///< its bytes cannot be read back
};

class Engine {
 public:
  explicit Engine(Framework& framework, const ArenaOptions& arena = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Sets mode, budgets and spool from `settings`, now or later again, while other threads run ops:
  /// what ops read of it without the lock is atomic. A lower budget is reached at the next
  /// allocation. Throws UserError and changes nothing if a setting can't be honoured.
  void start(const Settings& settings);
  /// Brings everything back and holds no budget any more, while other threads may run ops. What
  /// cannot be read back stays where it is. In a forked child ops are watched for ever: they may
  /// read what was evicted.
  void stop();

  /// Device memory, 64-byte aligned, null for zero bytes. Throws OutOfBudget. Any thread.
  std::byte* allocate(std::size_t bytes);
  /// Any thread, any lock held.
  void free(std::byte* pointer) noexcept;

  /// The record of the storage whose memory starts at `pointer`, or null if it never moves.
  [[nodiscard]] StorageRecord* find(const void* pointer) const {
    const Block* block = memory_.find(pointer);
    return block != nullptr && block->address == pointer ? block->record : nullptr;
  }

  /// The block `address` lies in, or null. For fault handlers: takes no lock.
  [[nodiscard]] const Block* block_at(const void* address) const { return memory_.find(address); }

  /// Ties the record to the adapter's handle, which the engine owns from now on. `object` is what
  /// the handle stands for; if another thread was first to bind the record to it, that one's stays.
  void bind(StorageRecord& record, void* owner, const void* object);

  struct Op {
    const char* name;         ///< interned
    std::uint64_t signature;  ///< of name and input shapes
    bool boundary;            ///< an optimizer step begins
    std::uint64_t key = 0;    ///< the same for ops that allocate the same; 0: unknown
    bool between = false;     ///< framework code runs it in the middle of filling an output
  };
  /// Opens a frame of the calling thread. Returns true if it is the outermost.
  bool begin_frame(const Op& op);
  /// Pins `record` to the open frame and makes it accessible. False if that is impossible
  /// (`last_failure` of this thread says why); the storage stays inaccessible then.
  bool use(StorageRecord& record, Access access);
  /// All inputs are pinned: in fuzz mode everything else leaves now. False if the op, going by what
  /// it needed when it ran before, cannot end under the budget (`last_failure` says why): better
  /// now than half-way.
  bool inputs_ready();
  /// The op made or returned `record`. `owner` binds it to the adapter's handle if it has none.
  void produced(StorageRecord& record);
  /// Returns the most that an outermost frame allocated at once; zero for those within.
  Bytes end_frame();
  /// Fuzz mode, between two ops: everything leaves that no op of any thread uses. `outputs`: also
  /// what the calling thread's last op made and what it has touched since, as at its next op.
  void push_out(bool outputs);

  /// Makes `record` accessible without a frame, for framework code that reads memory between ops.
  bool touch(StorageRecord& record, Access access);
  /// As `touch`, where the address leaves the framework: it is good until the thread's next op, and
  /// counts as written through at any time.
  bool give_address(StorageRecord& record);
  /// Never moves `record` again until `release`; it is made accessible first.
  bool keep(StorageRecord& record);
  void release(StorageRecord& record);
  /// Brings the record back, and exempts it from management for life.
  bool exempt(StorageRecord& record);

  /// For code that notes the addresses of storages and reads nothing, such as profilers: while they
  /// are shown, those that are away do not refuse them, and none comes back before an op asks for
  /// it, since until all bytes are there the range could be read. See Refusal.
  void show_addresses(bool shown);

  /// An op of which it is not known what it uses: until the object dies the engine is blind, in
  /// every thread. Copies go, since such an op may write what it reaches. What is away stays away.
  class Reach {
   public:
    explicit Reach(Engine& engine);
    Reach(Reach&& other) noexcept : engine_(std::exchange(other.engine_, nullptr)) {}
    Reach(const Reach&) = delete;
    Reach& operator=(const Reach&) = delete;
    Reach& operator=(Reach&& other) noexcept {
      std::swap(engine_, other.engine_);
      return *this;
    }
    ~Reach();

   private:
    Engine* engine_;
  };

  /// Ops will not be seen any more. False if that is impossible, since something is evicted: an
  /// unseen op could not bring it back. Copies go: unseen writes would make them stale.
  bool prepare_for_unseen_ops();

  /// True while a budget is enforced or anything else needs ops to be seen.
  [[nodiscard]] bool watching() const { return watching_.load(std::memory_order_relaxed); }
  /// A forked process, which manages nothing: see engine_fork.cpp.
  [[nodiscard]] bool in_child() const { return in_child_; }
  [[nodiscard]] Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  /// The bytes that the process may hold now.
  [[nodiscard]] Bytes budget() const { return {budget_.load(std::memory_order_relaxed)}; }
  /// The bytes that it could hold: more than `budget` where it shares one and has not claimed all
  /// it can, less where it took back what others claimed.
  [[nodiscard]] Bytes reach() const { return {reach_.load(std::memory_order_relaxed)}; }
  [[nodiscard]] Bytes min_size() const { return {min_size_.load(std::memory_order_relaxed)}; }
  /// Device bytes live; approximate without the lock.
  [[nodiscard]] Bytes live_now() const { return {live_now_.load(std::memory_order_relaxed)}; }
  /// Most that was live during the last completed step.
  [[nodiscard]] Bytes last_step_peak() const {
    return {last_step_peak_.load(std::memory_order_relaxed)};
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  /// Whether steps are counted by optimizer steps, and not by repetitions of a few ops.
  [[nodiscard]] bool steps_are_marked() const {
    return boundaries_seen_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t ops() const { return clock_.load(std::memory_order_relaxed); }

  /// While ops are not seen (see adapters) nothing is evicted, since a running op's inputs are not
  /// known, and allocations may exceed the budget, counted.
  void set_blind(bool blind) { blind_.store(blind, std::memory_order_relaxed); }
  [[nodiscard]] bool blind() const {
    return blind_.load(std::memory_order_relaxed) || reaching_.load(std::memory_order_relaxed) != 0;
  }
  /// Storages made while blind can't be evicted before an op shows them: until the next step ends,
  /// what cannot be met by evicting may exceed the budget too.
  void forgive_this_step() { forgiven_step_.store(steps() + 1, std::memory_order_relaxed); }

  /// Whether a thread waits for another one's op to end.
  [[nodiscard]] bool waits_for_ops() const { return waiting_.load() != 0; }

  /// Ops are not seen from now on, since the program fits, or are seen again: for what is told.
  void note_rest(bool resting);
  /// An optimizer's step while ops are not seen.
  void note_unwatched_step();
  /// The process ends. `unwritten`: a file that was asked for could not be written, which was said.
  void note_end(Ending ending, bool unwritten);

  /// For SPILLWAY_BUDGET_PAGE of processes that multiprocessing starts; empty where none is shared.
  std::string budget_page();

  /// Why the calling thread's last `use` or `touch` failed.
  static const std::string& last_failure();
  static FailureKind last_failure_kind();

  Statistics statistics();
  void reset_peak();
  /// Whether a trace is recorded, which adapters may add to: see TraceRecorder.
  [[nodiscard]] bool tracing() const { return recorder() != nullptr && mode() == Mode::kRecord; }
  void note(const OpNotes& notes) { recorder()->note(notes); }
  void describe(const StorageRecord& record, StorageRole role, std::string_view name) {
    recorder()->describe(record.id, role, name);
  }
  /// The last complete training step; nothing unless record mode was given a trace path.
  [[nodiscard]] std::optional<Trace> trace() const {
    return recorder() == nullptr ? std::nullopt : recorder()->trace();
  }

  /// Closed while a fork is coming or under way.
  [[nodiscard]] const ForkGate& fork_gate() const { return fork_gate_; }

  /// pthread_atfork: before, in the parent after, in the child after.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  class Lock;
  friend class Lock;

  bool use_slow(StorageRecord& record, Access access);
  bool settle(StorageRecord& record, Access access, Lock& lock);
  bool make_room(Bytes needed, RoomRequest& request, Lock& lock);
  Bytes start_evictions(Bytes needed);
  void keep_headroom();
  /// Bytes in use beyond SPILLWAY_START_AT and is not leaving.
  [[nodiscard]] Bytes above_start() const;
  void look_ahead(ThreadFrames& frames);
  std::vector<AwayStorage> away_storages();
  void write_behind(LookAhead& ahead, const ThreadFrames& frames);
  void prefetch(LookAhead& ahead, const ThreadFrames& frames);
  [[nodiscard]] RoomRequest request_for(Bytes bytes) const;
  bool wait_for_progress(RoomRequest& request, Lock& lock, std::uint64_t ended_before);
  bool wait_for_room_in_flight(RoomRequest& request, Lock& lock);
  bool wait_for_frames(RoomRequest& request, Lock& lock, std::uint64_t ended_before);
  void wait_for_copies(std::unique_lock<std::mutex>& lock);
  void wait_for_a_copy(std::unique_lock<std::mutex>& lock);
  void let_a_fork_begin(std::unique_lock<std::mutex>& lock);
  bool let_go_of_fresh_outputs();
  Bytes stays_anyway(ThreadFrames& frames);
  bool never_fits(Bytes bytes);
  void evict_everything(Lock& lock);
  void bring_everything_back(Lock& lock);
  void drain_freed();
  void drop_all_copies();
  void stamp(StorageRecord& record, ThreadFrames& frames);
  void note_step();
  void follow_machine();
  void begin_sharing(const Settings& settings);
  void follow_shared();
  void set_budget(Bytes budget);
  [[nodiscard]] Bytes stated_budget() const;
  bool claim_room(Bytes needed);
  bool take_back();
  void note_boundary(ThreadFrames& frames, bool optimizer_step);
  Bytes stays_beside(ThreadFrames& frames);
  [[nodiscard]] Bytes held_by(ThreadFrames& frames) const;
  [[nodiscard]] bool may_leave_after(const ThreadFrames& frames, const StorageRecord& record) const;
  [[nodiscard]] bool counts_as_input(const ThreadFrames& frames, const StorageRecord& record) const;
  void publish();
  void publish_use(StatusSlot& slot) const;
  [[nodiscard]] std::int64_t stalled_ns() const;
  bool will_fit(ThreadFrames& frames);
  void say_whole_need(ThreadFrames& frames);
  OutOfBudget::Facts shortage(Bytes need, Bytes short_by);
  OutOfBudget::Facts shortage(const RoomRequest& request, Bytes short_by);
  OutOfBudget::Facts shortage_in_op(const RoomRequest& request, Bytes short_by);
  OutOfBudget::Facts refusal(Bytes need);
  void note_shortage(Bytes short_by);
  [[nodiscard]] bool may_overbook() const;
  [[nodiscard]] TraceRecorder* recorder() const {
    return recorder_.load(std::memory_order_acquire);
  }
  std::byte* allocate_in_child(std::size_t bytes);
  bool use_in_child(StorageRecord& record, Access access);
  [[nodiscard]] std::shared_ptr<Spool> open_spool(const Settings& settings);

  Framework& framework_;
  std::mutex mutex_;
  std::condition_variable settled_;
  DeviceMemory memory_;
  Mover mover_;
  Settings settings_;
  SharedBudget shared_;
  bool sharing_ = false;
  bool said_shared_ = false;
  std::uint64_t limits_set_ = 0;  // times that the budget was set
  Bytes granted_{};               // by the settings; what is shared may be less
  std::atomic<std::uint64_t> budget_{0};
  std::atomic<std::uint64_t> reach_{0};
  std::atomic<std::uint64_t> min_size_{0};
  std::atomic<Mode> mode_{Mode::kOff};
  std::atomic<bool> watching_{false};
  std::atomic<bool> blind_{false};
  std::atomic<std::uint32_t> reaching_{0};  // see Reach
  std::atomic<std::uint64_t> forgiven_step_{0};
  std::atomic<std::uint64_t> clock_{1};  // outermost frames begun
  std::atomic<std::uint64_t> live_now_{0};
  std::atomic<TimeNs> look_again_at_{0};
  std::vector<StorageRecord*> away_records_;  // see away_storages
  std::atomic<std::uint64_t> step_peak_{0};
  std::atomic<std::uint64_t> last_step_peak_{0};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint32_t> waiting_{0};  // threads that wait for a frame to end
  std::atomic<bool> boundaries_seen_{false};
  std::atomic<TraceRecorder*> recorder_{nullptr};  // made once, never replaced
  std::vector<void*> dead_owners_;
  std::vector<Block*> freed_;
  Bytes floor_{};
  RunOutcome outcome_;
  std::int64_t stall_ns_ = 0;  ///< waited on the condition; see stalled_ns
  TimeNs started_ = 0;
  TimeNs step_started_ = 0;
  TimeNs follow_again_ = 0;  ///< not before then is the machine's memory looked at
  std::int64_t last_step_ns_ = 0;
  Bytes moved_at_step_{};
  Bytes last_step_moved_{};
  StatusMapping status_;
  std::atomic<StatusSlot*> slot_{nullptr};
  StatusRhythm rhythm_;
  StepProgress progress_;
  ForkGate fork_gate_;
  bool in_child_ = false;
  int fork_pipe_write_ = -1;
};

}  // namespace spillway::runtime
