// SPDX-License-Identifier: Apache-2.0
#include "replayed_step.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>

#include "host_time.hpp"
#include "spillway/base/error.hpp"

namespace spillway::replay {

using runtime::Access;
using testing::DeviceAccess;
using testing::FakeOp;
using testing::FakeStorage;

namespace {

constexpr runtime::DeviceStream kStream{0};

bool contains(std::span<const StorageId> storages, StorageId id) {
  return std::ranges::find(storages, id) != storages.end();
}

std::uint64_t signature_of(const Trace& trace, OpIndex op) {
  const std::uint64_t known = trace.ops.signature[to_value(op)];
  return known != 0 ? known : std::hash<std::string_view>{}(trace.ops.name[to_value(op)]);
}

DeviceAccess all_of(const FakeStorage& storage) {
  return {runtime::device_address(storage.pointer), {storage.bytes}};
}

/// An op of the trace that is launched again.
class ReplayedMaking final : public runtime::Making {
 public:
  ReplayedMaking(TimedCard& card, TimeNs duration, TimeNs host, std::vector<Bytes> sources,
                 Bytes result)
      : Making(duration),
        card_(card),
        duration_(duration),
        host_(host),
        sources_bytes_(std::move(sources)),
        result_(result) {}

  [[nodiscard]] const char* name() const noexcept override { return "replayed"; }
  [[nodiscard]] bool usable() const noexcept override { return true; }
  void run(std::span<std::byte* const> sources, std::uint32_t /*output*/,
           std::byte* to) const override {
    HostTime::spend(host_);
    std::vector<DeviceAccess> accesses{{runtime::device_address(to), result_}};
    for (std::size_t i = 0; i < sources.size(); ++i) {
      accesses.push_back({runtime::device_address(sources[i]), sources_bytes_[i]});
    }
    runtime::expect_done(card_, card_.launch(kStream, std::move(accesses), duration_), "launching");
  }

 private:
  TimedCard& card_;
  TimeNs duration_;
  TimeNs host_;
  std::vector<Bytes> sources_bytes_;
  Bytes result_;
};

}  // namespace

ReplayedStep::ReplayedStep(const Trace& trace, TimedCard& card, runtime::Engine& engine,
                           const CardTimes& times, const HostCosts& costs, Bytes smallest)
    : trace_(trace),
      card_(card),
      engine_(engine),
      times_(times),
      costs_(costs),
      smallest_(smallest),
      handles_(trace.storages.size()) {
  find_what_is_there_before();
}

ReplayedStep::~ReplayedStep() {
  for (std::uint64_t id = 0; id < handles_.size(); ++id) let_die(StorageId{id});
}

bool ReplayedStep::managed(StorageId id) const {
  return trace_.storages.bytes[to_value(id)] >= smallest_;
}

void ReplayedStep::find_what_is_there_before() {
  std::vector<bool> created(trace_.storages.size());
  for (const StorageId id : trace_.ops.creates.items) created[to_value(id)] = true;
  for (std::uint64_t id = 0; id < created.size(); ++id) {
    if (!created[id] && managed(StorageId{id})) there_before_.push_back(StorageId{id});
  }
}

void ReplayedStep::run() {
  make_missing();
  for (std::uint64_t op = 0; op < trace_.ops.size(); ++op) perform(OpIndex{op});
  hand_over();
}

// In ops of their own, as data comes in; all of them in the first step.
void ReplayedStep::make_missing() {
  for (const StorageId id : there_before_) {
    if (handle(id) != nullptr) continue;
    const FakeOp frame(engine_, 1, false);
    engine_.inputs_ready();
    make(id);
    runtime::expect_done(card_, card_.launch(kStream, {all_of(*handle(id))}, 0), "launching");
    show(id);
  }
}

void ReplayedStep::make(StorageId id) {
  auto made = std::make_unique<FakeStorage>();
  made->bytes = trace_.storages.bytes[to_value(id)].count;
  made->pointer = engine_.allocate(made->bytes);
  made->record = engine_.find(made->pointer);
  made->movable = true;
  handle(id) = made.release();
}

// After the launch, which is the first use.
void ReplayedStep::show(StorageId id) {
  FakeStorage* const storage = handle(id);
  engine_.produced(*storage->record);
  engine_.bind(*storage->record, storage, storage);
}

void ReplayedStep::use(OpIndex op, std::vector<DeviceAccess>& accesses) {
  const auto creates = trace_.ops.creates[op];
  const auto writes = trace_.ops.writes[op];
  const auto use_one = [&](StorageId id, Access access) {
    const FakeStorage* const storage = handle(id);
    if (!managed(id) || contains(creates, id) || storage == nullptr) return;
    if (!engine_.use(*storage->record, access)) throw UserError(runtime::Engine::last_failure());
    accesses.push_back(all_of(*storage));
  };
  for (const StorageId id : trace_.ops.reads[op]) {
    if (!contains(writes, id)) use_one(id, Access::kRead);
  }
  for (const StorageId id : writes) use_one(id, Access::kWrite);
}

void ReplayedStep::perform(OpIndex op) {
  const std::size_t row = to_value(op);
  HostTime::spend(times_.stretched(static_cast<double>(costs_.op + costs_.hook)));
  engine_.on_stream(kStream);
  {
    const FakeOp frame(engine_, signature_of(trace_, op), row == 0);
    std::vector<DeviceAccess> accesses;
    use(op, accesses);
    if (!engine_.inputs_ready()) throw UserError(runtime::Engine::last_failure());
    for (const StorageId id : trace_.ops.creates[op]) {
      if (!managed(id)) continue;
      make(id);
      accesses.push_back(all_of(*handle(id)));
    }
    const Bytes workspace = trace_.ops.workspace[row];
    std::byte* const within = workspace >= smallest_ ? engine_.allocate(workspace.count) : nullptr;
    if (within != nullptr) accesses.push_back({runtime::device_address(within), workspace});
    runtime::expect_done(card_,
                         card_.launch(kStream, std::move(accesses), trace_.ops.duration_ns[row]),
                         "launching");
    for (const StorageId id : trace_.ops.creates[op]) {
      if (managed(id)) show(id);
    }
    for (const StorageId id : trace_.ops.writes[op]) {
      const bool made_here = contains(trace_.ops.creates[op], id);
      if (!made_here && handle(id) != nullptr) engine_.produced(*handle(id)->record);
    }
    if (within != nullptr) engine_.free(within);
    say_how_made(op);
  }
  for (const StorageId id : trace_.ops.frees[op]) let_die(id);
}

// Of ops that write what was there before nothing is said: that part of it would have to be known.
void ReplayedStep::say_how_made(OpIndex op) {
  const std::size_t row = to_value(op);
  const auto creates = trace_.ops.creates[op];
  const bool pure = std::ranges::all_of(trace_.ops.writes[op],
                                        [&](StorageId id) { return contains(creates, id); });
  if (!pure || trace_.ops.recomputable[row] == 0 || !engine_.recomputes()) return;
  std::vector<runtime::StorageRecord*> sources;
  std::vector<Bytes> bytes;
  for (const StorageId id : trace_.ops.reads[op]) {
    if (contains(creates, id) || handle(id) == nullptr) continue;
    sources.push_back(handle(id)->record);
    bytes.push_back({handle(id)->bytes});
  }
  for (const StorageId id : creates) {
    if (handle(id) == nullptr) continue;
    const FakeStorage& made = *handle(id);
    const std::array results{made.record};
    engine_.made(results,
                 std::make_shared<ReplayedMaking>(card_, trace_.ops.duration_ns[row],
                                                  times_.stretched(static_cast<double>(costs_.op)),
                                                  bytes, Bytes{made.bytes}),
                 sources);
  }
}

void ReplayedStep::let_die(StorageId id) {
  if (FakeStorage* const storage = std::exchange(handle(id), nullptr)) {
    testing::drop_storage(engine_, storage);
  }
}

void ReplayedStep::hand_over() {
  std::vector<FakeStorage*> next(handles_.size());
  for (std::uint64_t id = 0; id < handles_.size(); ++id) {
    const StorageId continues = trace_.storages.continues[id];
    const bool persists = trace_.storages.persistent[id] != 0;
    if (continues != kNoStorage) {
      next[to_value(continues)] = std::exchange(handles_[id], nullptr);
    } else if (persists) {
      next[id] = std::exchange(handles_[id], nullptr);
    } else {
      let_die(StorageId{id});
    }
  }
  handles_ = std::move(next);
}

void launch_kernels(const Trace& trace, TimedCard& card, const CardTimes& times,
                    const HostCosts& costs) {
  for (const TimeNs duration : trace.ops.duration_ns) {
    HostTime::spend(times.stretched(static_cast<double>(costs.op)));
    runtime::expect_done(card, card.launch(kStream, {}, duration), "launching");
  }
}

}  // namespace spillway::replay
