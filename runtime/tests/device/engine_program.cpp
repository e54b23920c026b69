// SPDX-License-Identifier: Apache-2.0
#include "engine_program.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <stdexcept>
#include <utility>

namespace spillway::runtime {
namespace {

using spillway::testing::drop_storage;
using spillway::testing::FakeOp;
using spillway::testing::FakeStorage;
using spillway::testing::ThreadDevice;

spillway::testing::DeviceAccess at(const FakeStorage& storage) {
  return {device_address(storage.pointer), {storage.bytes}};
}

std::size_t take_any(std::vector<std::size_t>& from, std::mt19937_64& random) {
  std::swap(from[random() % from.size()], from.back());
  const std::size_t taken = from.back();
  from.pop_back();
  return taken;
}

}  // namespace

EngineProgram::EngineProgram(ThreadDevice& device, Engine& engine,
                             std::vector<DeviceStream> streams, std::uint64_t seed)
    : device_(device),
      engine_(engine),
      streams_(std::move(streams)),
      random_(seed),
      launches_(device) {
  for (std::size_t slot = 0; slot < kWeights; ++slot) first_ops_.push_back(random_make(slot));
  plan_step();
}

EngineProgram::~EngineProgram() {
  for (std::size_t slot = 0; slot < storages_.size(); ++slot) die(slot);
}

// ---- What is run --------------------------------------------------------------------------------

EngineProgram::Op EngineProgram::random_make(std::size_t slot) {
  return {.kind = OpKind::kMake,
          .stream = random_() % streams_.size(),
          .target = slot,
          .salt = random_(),
          .bytes = kGranule * (1 + random_() % kMostGranules)};
}

void EngineProgram::plan_step() {
  std::vector<std::size_t> living;
  std::vector<std::size_t> dead;
  for (std::size_t slot = 0; slot < storages_.size(); ++slot) {
    (slot < kWeights ? living : dead).push_back(slot);
  }
  const std::size_t ops = 20 + random_() % 20;
  while (step_.size() < ops) step_.push_back(random_op(living, dead));
  for (const std::size_t slot : living) {
    if (slot >= kWeights) step_.push_back({.kind = OpKind::kDie, .stream = 0, .target = slot});
  }
}

EngineProgram::Op EngineProgram::random_op(std::vector<std::size_t>& living,
                                           std::vector<std::size_t>& dead) {
  const std::uint64_t dice = random_() % 100;
  if (dice < 30 && !dead.empty()) {
    living.push_back(take_any(dead, random_));
    return random_make(living.back());
  }
  if (dice < 40) {
    const auto activation =
        std::ranges::find_if(living, [](std::size_t slot) { return slot >= kWeights; });
    if (activation != living.end()) {
      dead.push_back(*activation);
      living.erase(activation);
      return {.kind = OpKind::kDie, .stream = 0, .target = dead.back()};
    }
  }
  std::ranges::shuffle(living, random_);
  return {.kind = dice < 55 ? OpKind::kCheck : OpKind::kMix,
          .stream = random_() % streams_.size(),
          .target = living[0],
          .first = living[1],
          .second = living[2],
          .salt = random_()};
}

// ---- Running it ---------------------------------------------------------------------------------

std::string EngineProgram::run(int steps) {
  try {
    for (const Op& op : first_ops_) perform(op, 1'000, false);
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < step_.size(); ++i) perform(step_[i], i + 1, i == 0);
    }
    for (std::size_t slot = 0; slot < kWeights; ++slot) {
      perform({.kind = OpKind::kCheck, .stream = 0, .target = slot}, 2'000, false);
    }
    expect_done(device_, device_.synchronize(), "the end");
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void EngineProgram::perform(const Op& op, std::uint64_t signature, bool boundary) {
  if (op.kind == OpKind::kDie) return die(op.target);
  stream_ = streams_[op.stream];
  engine_.on_stream(stream_);
  const FakeOp frame(engine_, signature, boundary);
  if (op.kind == OpKind::kMake) make(op);
  if (op.kind == OpKind::kMix) mix(op);
  if (op.kind == OpKind::kCheck) check(op);
  most_used_ = std::max(most_used_, device_.used());
}

OrderedLaunches::Operand EngineProgram::use(std::size_t slot, Access access) {
  Storage& storage = storages_[slot];
  launches_.order(stream_, storage.uses, access);
  if (!engine_.use(*storage.handle->record, access)) {
    throw std::runtime_error(Engine::last_failure());
  }
  return {&storage.uses, access, at(*storage.handle)};
}

void EngineProgram::be_ready(Engine& engine) {
  if (!engine.inputs_ready()) throw std::runtime_error(Engine::last_failure());
}

// Its memory is had in the op that writes it. It is shown, and can leave, when that was launched.
void EngineProgram::make(const Op& op) {
  be_ready(engine_);
  Storage& storage = storages_[op.target];
  auto handle = std::make_unique<FakeStorage>();
  handle->pointer = engine_.allocate(op.bytes.count);
  handle->bytes = op.bytes.count;
  handle->record = engine_.find(handle->pointer);
  storage.uses = {};
  storage.expected.resize(words_in(op.bytes));
  fill(storage.expected, op.salt);
  try {
    // All bytes are looked at where what is made again is compared.
    expect_done(device_, device_.fill(device_address(handle->pointer), {}, op.bytes, stream_),
                "a fill");
    launches_.launch(streams_[op.stream], {{&storage.uses, Access::kWrite, at(*handle)}},
                     fill_kernel(storage.expected.size(), op.salt));
  } catch (...) {
    engine_.free(handle->pointer);
    throw;
  }
  storage.handle = handle.release();
  storage.handle->movable = op.salt % 4 != 0;
  engine_.produced(*storage.handle->record);
  engine_.bind(*storage.handle->record, storage.handle, storage.handle);
  const std::array results{storage.handle->record};
  engine_.made(results, again({op.bytes}, fill_kernel(storage.expected.size(), op.salt)), {});
}

/// A kernel that the engine may launch again, on the stream of the op that is run.
class EngineProgram::Again final : public Making {
 public:
  Again(EngineProgram& program, std::vector<Bytes> operands, spillway::testing::DeviceKernel kernel)
      : Making(1), program_(program), operands_(std::move(operands)), kernel_(std::move(kernel)) {}

  [[nodiscard]] const char* name() const noexcept override { return "again"; }
  [[nodiscard]] bool usable() const noexcept override { return true; }
  void run(std::span<std::byte* const> sources, std::uint32_t /*output*/,
           std::byte* to) const override {
    if (sources.empty()) {
      expect_done(program_.device_,
                  program_.device_.fill(device_address(to), {}, operands_[0], program_.stream_),
                  "a fill");
    }
    std::vector<spillway::testing::DeviceAccess> accesses{{device_address(to), operands_[0]}};
    // The first source, if any, is what is overwritten.
    for (std::size_t i = 1; i < sources.size(); ++i) {
      accesses.push_back({device_address(sources[i]), operands_[i]});
    }
    expect_done(program_.device_, program_.device_.launch(program_.stream_, accesses, kernel_),
                "a launch");
    ++program_.made_again_;
  }

 private:
  EngineProgram& program_;
  std::vector<Bytes> operands_;
  spillway::testing::DeviceKernel kernel_;
};

std::shared_ptr<Making> EngineProgram::again(std::vector<Bytes> operands,
                                             spillway::testing::DeviceKernel kernel) {
  return std::make_shared<Again>(*this, std::move(operands), std::move(kernel));
}

void EngineProgram::mix(const Op& op) {
  StorageRecord& overwritten = *storages_[op.target].handle->record;
  Making::Source before = engine_.before_write(overwritten);
  const std::vector<OrderedLaunches::Operand> operands = {
      use(op.target, Access::kWrite), use(op.first, Access::kRead), use(op.second, Access::kRead)};
  be_ready(engine_);
  Words& target = storages_[op.target].expected;
  const Words& first = storages_[op.first].expected;
  const Words& second = storages_[op.second].expected;
  launches_.launch(streams_[op.stream], operands,
                   mix_kernel(target.size(), first.size(), second.size(), op.salt));
  runtime::mix(target, first, second, op.salt);
  engine_.produced(overwritten);
  engine_.end_writes();
  const FakeStorage& one = *storages_[op.first].handle;
  const FakeStorage& two = *storages_[op.second].handle;
  const std::array others{one.record, two.record};
  engine_.made_over(overwritten, std::move(before),
                    again({overwritten.bytes, {one.bytes}, {two.bytes}},
                          mix_kernel(target.size(), first.size(), second.size(), op.salt)),
                    others);
}

void EngineProgram::check(const Op& op) {
  const OrderedLaunches::Operand operand = use(op.target, Access::kRead);
  be_ready(engine_);
  launches_.launch(streams_[op.stream], {operand},
                   check_kernel(storages_[op.target].expected, wrong_));
}

void EngineProgram::die(std::size_t slot) {
  if (FakeStorage* const handle = std::exchange(storages_[slot].handle, nullptr)) {
    drop_storage(engine_, handle);
  }
}

}  // namespace spillway::runtime
