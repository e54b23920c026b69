// SPDX-License-Identifier: Apache-2.0
#include "recomputation.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "demands.hpp"
#include "recipe.hpp"
#include "spillway/runtime/exec/frames.hpp"
#include "spillway/runtime/exec/last_failure.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

class Unlocked {
 public:
  explicit Unlocked(EngineLock& lock) : lock_(lock.native()) { lock_.unlock(); }
  ~Unlocked() { lock_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  std::unique_lock<std::mutex>& lock_;
};

/// What is held stays where it is, and no op's needs are counted.
class Pinned {
 public:
  Pinned(const std::vector<HeldSource>& held, ThreadFrames& frames) : held_(held), frames_(frames) {
    for (const HeldSource& source : held_) source.record->pins.fetch_add(1);
    ++frames_.recomputing;
  }
  ~Pinned() {
    --frames_.recomputing;
    for (const HeldSource& source : held_) source.record->unpin();
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  const std::vector<HeldSource>& held_;
  ThreadFrames& frames_;
};

}  // namespace

/// Memory for what is made on the way.
class Recomputation::Memory {
 public:
  Memory(DeviceTier& memory, Bytes bytes, Run& run)
      : memory_(memory), address_(run.demands.allocate(bytes, run.lock)) {}
  ~Memory() {
    if (address_ != nullptr) memory_.free_later(address_);
  }
  Memory(Memory&& other) noexcept
      : memory_(other.memory_), address_(std::exchange(other.address_, nullptr)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = delete;

  [[nodiscard]] std::byte* address() const { return address_; }

 private:
  DeviceTier& memory_;
  std::byte* address_;
};

// A source that is overwritten is made where the result belongs.
void Recomputation::make(const Made& made, std::byte* to, Run& run) {
  SPILLWAY_CHECK(made.by != nullptr, "what is not held was made by an op that is known");
  const Making& making = *made.by;
  std::vector<std::byte*> addresses;
  std::vector<Memory> on_the_way;
  for (std::size_t i = 0; i < making.sources().size(); ++i) {
    const Making::Source& source = making.sources()[i];
    if (is_read(source, run.held)) {
      addresses.push_back(source.record->block->address);
    } else if (i == making.overwritten()) {
      make(source.made, to, run);
      addresses.push_back(to);
    } else {
      on_the_way.emplace_back(memory_, source.bytes, run);
      make(source.made, on_the_way.back().address(), run);
      addresses.push_back(on_the_way.back().address());
    }
  }
  const Unlocked unlocked(run.lock);
  making.run(addresses, made.output, to);
}

bool Recomputation::run(StorageRecord& record, Demands& demands, EngineLock& lock) {
  ThreadFrames& frames = this_thread_frames();
  if (streams_ != nullptr && !frames.stream) frames.stream = streams_->number(DeviceStream{0});
  const TimeNs begin = now_ns();
  const StorageId id = record.id;
  const Made made = record.made;
  const std::vector<HeldSource> held = record.holds;
  if (made.by == nullptr) {
    mover_.recomputed(record, false);
    record.failed = false;
    set_last_failure(
        "Spillway: a storage was dropped, and what it was made from has been written since by code "
        "that no op shows. SPILLWAY_RECOMPUTE=off copies all instead.",
        FailureKind::kUnreadable);
    return false;
  }
  Run run{.held = held, .demands = demands, .lock = lock};
  std::exception_ptr shortage;
  bool done = false;
  {
    const Pinned pinned(held, frames);
    try {
      done = std::ranges::all_of(held, [&](const HeldSource& source) {
        return demands.settle(*source.record, Access::kRead, lock);
      });
      if (done) launch(made, record, frames, run);
    } catch (const OutOfBudget&) {
      done = false;
      shortage = std::current_exception();
    } catch (const DeviceFailure& failure) {
      done = false;
      set_last_failure(failure);
    } catch (const std::exception& error) {  // the framework has no memory for the op
      done = false;
      set_last_failure(error.what());
    }
  }
  mover_.recomputed(record, done, now_ns() - begin);
  if (shortage != nullptr) std::rethrow_exception(shortage);
  if (record.id == id && std::exchange(record.failed, false) && done) {  // its caller is told
    set_last_failure("Spillway: " + mover_.failure(), FailureKind::kUnreadable);
    return false;
  }
  return done;
}

// On a device its earlier uses end before it is written, and its sources stay until it is. The
// program orders what writes a source after the uses that it knows of: see Engine::use.
void Recomputation::launch(const Made& made, StorageRecord& record, ThreadFrames& frames,
                           Run& run) {
  if (streams_ == nullptr) return make(made, record.block->address, run);
  streams_->order_after_uses(*record.block, *frames.stream);
  for (const HeldSource& source : run.held) {
    source.record->read_unseen.store(true);
    streams_->begin_use(*source.record->block, *frames.stream);
  }
  const auto end = [&] {
    for (const HeldSource& source : run.held) {
      streams_->end_use(*source.record->block, *frames.stream);
    }
    streams_->made(*record.block, *frames.stream);
  };
  try {
    make(made, record.block->address, run);
  } catch (...) {
    end();
    throw;
  }
  end();
}

namespace {

bool waits_for(const StorageRecord& record, const StorageRecord* source) {
  if (source == nullptr) {
    return record.recomputing ||
           (record.state.load() == ResidencyState::kDropped && record.made.by != nullptr);
  }
  return std::ranges::find(record.holds, source, &HeldSource::record) != record.holds.end();
}

}  // namespace

// It is held meanwhile, so that it does not die of a free that another thread notices.
bool Recomputation::bring_back(const StorageRecord* source, Demands& demands, EngineLock& lock) {
  for (;;) {
    freed_.drain();
    const auto& live = mover_.live();
    const auto found = std::ranges::find_if(
        live, [&](const StorageRecord* record) { return waits_for(*record, source); });
    if (found == live.end()) return true;
    StorageRecord& record = **found;
    const std::vector<HeldSource> itself{{&record, 0}};
    record.held.fetch_add(1);
    record.pins.fetch_add(1);
    bool back = false;
    try {
      back = demands.settle(record, Access::kRead, lock);
    } catch (...) {
      record.unpin();
      mover_.let_go(itself);
      throw;
    }
    record.unpin();
    mover_.let_go(itself);
    if (!back) return false;
  }
}

void Recomputation::give_up(const StorageRecord* source) {
  const std::vector<StorageRecord*> records = mover_.live();  // which letting go may reorder
  for (StorageRecord* record : records) {
    if (record->recomputing || !waits_for(*record, source)) continue;
    mover_.set_made(*record, {});
    mover_.let_go(std::exchange(record->holds, {}));
  }
}

}  // namespace spillway::runtime
