// SPDX-License-Identifier: Apache-2.0
#include "device_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway::runtime {
namespace {

using spillway::testing::DeviceKernel;

}  // namespace

DeviceProgram::DeviceProgram(const ProgramCard& card, std::vector<DeviceStream> streams,
                             std::uint64_t seed)
    : card_(card), streams_(std::move(streams)), random_(seed), launches_(card.device) {}

void DeviceProgram::run(int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::lock_guard lock(card_.storages.mutex());
    step();
    ASSERT_LE(card_.device.used(), card_.storages.tier().budget().limit())
        << "the driver's own count";
  }
}

void DeviceProgram::step() {
  const std::uint64_t dice = random_() % 100;
  if (storages_.size() < 2 || (dice < 12 && storages_.size() < kMostStorages)) return create();
  if (dice < 50) return mix();
  if (dice < 58) return check(any());
  if (dice < 76) return evict();
  if (dice < 86) return prefetch();
  if (dice < 89) return static_cast<void>(card_.storages.give_up(*any().record));
  if (dice < 96) return die(random_() % storages_.size());
  card_.storages.advance();
}

bool DeviceProgram::make_room(const std::vector<Operand>& kept) {
  if (card_.storages.make_room()) return true;
  for (const auto& storage : storages_) {
    const bool keep = std::ranges::any_of(
        kept, [&](const Operand& operand) { return operand.storage == storage.get(); });
    if (!keep && card_.storages.evict(*storage->record)) return true;
  }
  return false;
}

void DeviceProgram::create() {
  auto storage = std::make_unique<Storage>();
  storage->granules = 1 + random_() % 4;
  const DeviceStream stream = any_stream();
  while ((storage->record = card_.storages.create({storage->granules * kGranule}, stream)) ==
         nullptr) {
    if (!make_room({})) return;
  }
  const std::uint64_t salt = random_();
  storage->expected.resize(words_in({storage->granules * kGranule}));
  fill(storage->expected, salt);
  storages_.push_back(std::move(storage));
  launch(stream, {{storages_.back().get(), Access::kWrite}},
         fill_kernel(storages_.back()->expected.size(), salt));
}

void DeviceProgram::mix() {
  Storage& target = any();
  Storage& first = any();
  Storage& second = any();
  if (&target == &first || &target == &second || &first == &second) return;
  const std::uint64_t salt = random_();
  const bool launched = launch(
      any_stream(), {{&target, Access::kWrite}, {&first, Access::kRead}, {&second, Access::kRead}},
      mix_kernel(target.expected.size(), first.expected.size(), second.expected.size(), salt));
  if (launched) runtime::mix(target.expected, first.expected, second.expected, salt);
}

void DeviceProgram::check(Storage& storage) {
  launch(any_stream(), {{&storage, Access::kRead}}, check_kernel(storage.expected, wrong_));
}

void DeviceProgram::evict() { static_cast<void>(card_.storages.evict(*any().record)); }

void DeviceProgram::prefetch() { static_cast<void>(card_.storages.prefetch(*any().record)); }

void DeviceProgram::die(std::size_t index) {
  std::swap(storages_[index], storages_.back());
  card_.storages.die(*storages_.back()->record);
  storages_.pop_back();
}

bool DeviceProgram::pin(DeviceStream stream, const std::vector<Operand>& operands,
                        std::vector<OrderedLaunches::Operand>& pinned) {
  for (const Operand& operand : operands) {
    std::optional<DeviceAddress> address;
    while (!(address = card_.storages.use(*operand.storage->record, stream, operand.access))) {
      if (!make_room(operands)) return false;
    }
    pinned.push_back({&operand.storage->uses,
                      operand.access,
                      {*address, {operand.storage->granules * kGranule}}});
  }
  return true;
}

bool DeviceProgram::launch(DeviceStream stream, const std::vector<Operand>& operands,
                           DeviceKernel kernel) {
  std::vector<OrderedLaunches::Operand> pinned;
  const bool all = pin(stream, operands, pinned);
  if (all) launches_.launch(stream, pinned, std::move(kernel));
  for (std::size_t i = 0; i < pinned.size(); ++i) {
    card_.storages.used(*operands[i].storage->record, stream);
  }
  return all;
}

void DeviceProgram::finish() {
  const std::lock_guard lock(card_.storages.mutex());
  for (const auto& storage : storages_) check(*storage);
  expect_done(card_.device, card_.device.synchronize(), "the end");
  while (!storages_.empty()) die(storages_.size() - 1);
}

}  // namespace spillway::runtime
