// SPDX-License-Identifier: Apache-2.0
// Holds the budget: the one object an adapter talks to.
//
//     adapter                      engine
//     allocator.allocate  ------>  allocate      evicts until the request fits
//     allocator.free      ------>  free          lock-free
//     op begins           ------>  begin_frame, use (each input), inputs_ready
//     op ends             ------>  produced (each output), end_frame
//
// A facade: it keeps the order of things that the drawing shows, and its parts do them. What ops
// read without a call is here (MoveRules, StepCounter, DeviceTier); the other parts have headers
// of their own in src/exec, and engine_parts.hpp lists them.
//
// Lock order: a framework lock (Python's GIL) before the engine's, never the reverse. Under the
// engine's lock nothing is awaited but its own condition and, on a card, calls that map or unmap
// memory; no framework object is destroyed and no deleter runs. One engine per device; it is never
// destroyed, since storages may outlive main.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/fork_gate.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/lane.hpp"
#include "spillway/runtime/exec/last_failure.hpp"
#include "spillway/runtime/exec/making.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/exec/out_of_budget.hpp"
#include "spillway/runtime/exec/statistics.hpp"
#include "spillway/runtime/exec/step_counter.hpp"
#include "spillway/runtime/exec/tier_set.hpp"
#include "spillway/runtime/exec/trace_recorder.hpp"
#include "spillway/runtime/memory/arena.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {

class Engine {
 public:
  /// Over the machine's RAM.
  explicit Engine(Framework& framework, const ArenaOptions& arena = {});
  Engine(Framework& framework, std::unique_ptr<DeviceTier> memory);
  Engine(Framework& framework, std::unique_ptr<TierSet> tiers);
  ~Engine();
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
  /// The same for work of `stream`, be it that the calling thread's is another's.
  std::byte* allocate(std::size_t bytes, DeviceStream stream);
  /// Any thread, any lock held.
  void free(std::byte* pointer) noexcept;

  /// The record of the storage whose memory starts at `pointer`, or null if it never moves.
  [[nodiscard]] StorageRecord* find(const void* pointer) const {
    const DeviceBlock* block = memory_->find(pointer);
    return block != nullptr && block->address == pointer ? block->record : nullptr;
  }

  /// The block `address` lies in, or null. For fault handlers: takes no lock.
  [[nodiscard]] const DeviceBlock* block_at(const void* address) const {
    return memory_->find(address);
  }

  /// Ties the record to the adapter's handle, which the engine owns from now on. `object` is what
  /// the handle stands for; if another thread was first to bind the record to it, that one's stays.
  void bind(StorageRecord& record, void* owner, const void* object);
  /// Another handle for what the record is bound to, which the engine owns from now on. The one
  /// before is released when this returns, unless another thread is looking at it.
  void replace_owner(StorageRecord& record, void* owner);

  struct Op {
    const char* name;         ///< interned
    std::uint64_t signature;  ///< of name and input shapes
    bool boundary;            ///< an optimizer step begins
    std::uint64_t key = 0;    ///< the same for ops that allocate the same; 0: unknown
    bool between = false;     ///< framework code runs it in the middle of filling an output
  };
  /// On a device whose streams do the work: what the calling thread launches from now on, and the
  /// memory that it allocates, is that stream's. All threads are in one lane there, since a
  /// backward pass runs on threads of the device's.
  void on_stream(DeviceStream stream);
  /// Work of `stream` uses the block that starts at `pointer`, whose bytes are there, until the
  /// block is freed: nobody else has the memory before that work is done. Throws DeviceFailure.
  void record_stream(const void* pointer, DeviceStream stream);
  /// Opens a frame of the calling thread. Returns true if it is the outermost.
  bool begin_frame(const Op& op);
  /// Pins `record` to the open frame and makes it accessible. False if that is impossible
  /// (`last_failure` of this thread says why); the storage stays inaccessible then.
  bool use(StorageRecord& record, Access access);
  /// All inputs are pinned: in fuzz mode everything else leaves now. False if the op, going by what
  /// it needed when it ran before, cannot end under the budget (`last_failure` says why): better
  /// now than half-way.
  bool inputs_ready();
  /// The op made or returned `record`. `made_by`, interned, names the op if nothing named the one
  /// that made it.
  void produced(StorageRecord& record, const char* made_by = nullptr);
  /// Whether adapters shall say how storages are made.
  [[nodiscard]] bool recomputes() const { return rules_.recomputes() && moves(mode()); }
  /// The op that is about to end writes no more: what ops within it read of what it wrote is not
  /// what is there now. Before `made_over`; else the end of the frame does it.
  void end_writes();
  /// The op that is about to end made `results`, in order, null where nobody needs to know, from
  /// those storages as they are now, and can be run again.
  void made(std::span<StorageRecord* const> results, const std::shared_ptr<Making>& by,
            std::span<StorageRecord* const> sources);
  /// An op is about to write `record`: how it was made until now, for `made_over`.
  [[nodiscard]] Making::Source before_write(StorageRecord& record);
  /// As `made`, by an op that overwrote `before`, which comes first among its sources.
  void made_over(StorageRecord& record, Making::Source before, std::shared_ptr<Making> by,
                 std::span<StorageRecord* const> others);
  /// Anything may have been written by ops that nobody saw: nothing is made from what was there.
  void forget_all_makings();
  /// Whether anything is dropped now. Any thread, no lock.
  [[nodiscard]] bool any_dropped() const;
  /// Makes `record` again if it is dropped, before the op that uses it pins what else it uses. A
  /// failure is that op's to meet.
  void make_dropped(StorageRecord& record);
  /// It may have been made in another way than was said.
  void forget_making(StorageRecord& record);
  /// Returns the most that an outermost frame allocated at once; zero for those within.
  Bytes end_frame();
  /// The lane of the calling thread's ops, for other threads to join. Between ops.
  std::shared_ptr<Lane> share_lane();
  /// The calling thread's ops from now on are in `lane`, a shared one; null: in its own again.
  /// Between ops.
  void join_lane(std::shared_ptr<Lane> lane);

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
  /// The record's memory is handed to code outside the framework, which writes it at any time: it
  /// does not move until `end_export`, as often as `begin_export`. It is accessible already. Any
  /// thread, no lock.
  void begin_export(StorageRecord& record);
  void end_export(StorageRecord& record) noexcept;
  /// Framework code writes the record through pointers that no op shows, from now on.
  void expect_unseen_writes(StorageRecord& record);

  /// For code that notes the addresses of storages and reads nothing, such as profilers: while they
  /// are shown, those that are away do not refuse them, and none comes back before an op asks for
  /// it, since until all bytes are there the range could be read. See Refusal.
  void show_addresses(bool shown);

  /// An op whose uses are unknown, in its frame: until the object dies the engine is blind, in
  /// every thread. Copies are given up, since such an op may write what it reaches. Evicted
  /// storages stay away. Throws DeviceFailure.
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

  /// Ops will not be seen any more; the engine is blind already. False if that is impossible, since
  /// something is evicted: an unseen op could not bring it back. Copies go: unseen writes would
  /// make them stale. On a card nothing orders unseen ops behind copies: the host waits for all
  /// that were begun.
  bool prepare_for_unseen_ops();
  /// All unseen ops have begun and returned; the engine is blind still. On a card nobody noted what
  /// they use: the host waits until they are done. False if it could not: they may still run.
  bool wait_for_unseen_ops();

  /// True while a budget is enforced or anything else needs ops to be seen.
  [[nodiscard]] bool watching() const { return rules_.watching(); }
  /// A forked process, which manages nothing: see ForkedChild.
  [[nodiscard]] bool in_child() const { return in_child_; }
  [[nodiscard]] Mode mode() const { return rules_.mode(); }
  /// The bytes that the process may hold now.
  [[nodiscard]] Bytes budget() const;
  /// The bytes that it could hold: more than `budget` where it shares one and has not claimed all
  /// it can, less where it took back what others claimed.
  [[nodiscard]] Bytes reach() const;
  [[nodiscard]] Bytes min_size() const { return rules_.min_size(); }
  /// Device bytes live; approximate without the lock.
  [[nodiscard]] Bytes live_now() const { return steps_.live_now(); }
  /// Most that was live during the last completed step.
  [[nodiscard]] Bytes last_step_peak() const { return steps_.last_step_peak(); }
  [[nodiscard]] std::uint64_t steps() const { return steps_.steps(); }
  /// Whether steps are counted by optimizer steps, and not by repetitions of a few ops.
  [[nodiscard]] bool steps_are_marked() const { return steps_.marked(); }
  /// Outermost frames that have begun, over all threads.
  [[nodiscard]] std::uint64_t ops() const { return steps_.ops(); }

  /// While ops are not seen (see adapters) nothing is evicted, since a running op's inputs are not
  /// known, and allocations may exceed the budget, counted.
  void set_blind(bool blind) { rules_.set_blind(blind); }
  [[nodiscard]] bool blind() const { return rules_.blind(); }
  /// Storages made while blind can't be evicted before an op shows them: until the next step ends,
  /// what cannot be met by evicting may exceed the budget too.
  void forgive_this_step() { steps_.forgive_this_step(); }

  /// Whether a thread waits for another one's op to end.
  [[nodiscard]] bool waits_for_ops() const;

  /// Ops are not seen from now on, since the program fits, or are seen again: for the statistics.
  void note_rest(bool resting);
  /// An optimizer's step while ops are not seen.
  void note_unwatched_step();
  /// The process ends. `unwritten`: a file that was asked for could not be written, which was said.
  void note_end(Ending ending, bool unwritten);

  /// For SPILLWAY_BUDGET_PAGE of processes that multiprocessing starts; empty where none is shared.
  std::string budget_page();

  /// Why the calling thread's last `use` or `touch` failed.
  static const std::string& last_failure() { return runtime::last_failure().text; }
  static FailureKind last_failure_kind() { return runtime::last_failure().kind; }

  /// The process holds so many bytes of the device besides the engine's, and the budget covers them
  /// too. Waits until what is managed fits beside them, as far as it can leave. `expected`: it will
  /// hold more soon, and that stays free until an op cannot run otherwise. Any thread.
  void set_unmanaged(Bytes bytes, Bytes expected = {});

  /// What the device tier holds now. `opening`: of that, at most what a driver does not count yet.
  struct DeviceBytes {
    Bytes held{};
    Bytes opening{};
  };
  [[nodiscard]] DeviceBytes device_bytes();
  Statistics statistics();
  /// Gives back the memory that the device tier holds for nobody.
  void release_idle();
  void reset_peak();
  /// Work of another card of the process, by its number there, may reach all that the engine holds
  /// from now on. Throws DeviceFailure.
  void allow_peer(int ordinal);
  /// Graphs may be captured from streams of a card between these. The first throws DeviceFailure,
  /// and is to be ended all the same.
  void begin_captures();
  void end_captures() noexcept;
  /// Whether a trace is recorded, which adapters may add to: see TraceRecorder.
  [[nodiscard]] bool tracing() const {
    return recorder_.get() != nullptr && mode() == Mode::kRecord;
  }
  void note(const OpNotes& notes) { recorder_.get()->note(notes); }
  void describe(const StorageRecord& record, StorageRole role, std::string_view name) {
    recorder_.get()->describe(record.id, role, name);
  }
  /// The last complete training step; nothing unless record mode was given a trace path. Waits for
  /// a device that has yet to say how long ops took.
  [[nodiscard]] std::optional<Trace> trace() const;

  /// Closed while a fork is coming or under way.
  [[nodiscard]] const ForkGate& fork_gate() const;

  /// pthread_atfork: before, in the parent after, in the child after.
  void before_fork();
  void after_fork_in_parent();
  void after_fork_in_child();

 private:
  struct Parts;

  bool make_accessible(StorageRecord& record, Access access);
  void enter_device(ThreadFrames& frames);
  bool begin_use(StorageRecord& record, ThreadFrames& frames, Access access);
  bool begin_use_anywhere(StorageRecord& record);
  void stamp(StorageRecord& record, ThreadFrames& frames);
  bool begin_version(StorageRecord& record);
  void begin_versions_of_all();
  void make_all_dropped();
  void end_step();

  MoveRules rules_;
  StepCounter steps_;
  RecorderSlot recorder_;
  const std::unique_ptr<TierSet> tiers_;
  DeviceTier* const memory_;
  StreamUses* const streams_;                // null: the processor alone uses the memory
  const std::shared_ptr<Lane> device_lane_;  // of all threads; null where each has its own
  bool in_child_ = false;
  std::unique_ptr<Parts> parts_;
};

}  // namespace spillway::runtime
