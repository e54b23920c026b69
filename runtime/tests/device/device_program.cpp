// SPDX-License-Identifier: Apache-2.0
#include "device_program.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace spillway::runtime {
namespace {

using spillway::testing::DeviceAccess;
using spillway::testing::DeviceKernel;

constexpr std::uint64_t kStride = 512;
constexpr std::uint64_t kWordsOfGranule = DeviceProgram::kGranule / kStride;

std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL ^ (b + 0x7f4a7c15ULL + (a << 6));
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 32);
}

std::uint64_t load(const std::byte* memory, std::size_t word) {
  std::uint64_t value = 0;
  std::memcpy(&value, memory + word * kStride, sizeof value);
  return value;
}
void store(std::byte* memory, std::size_t word, std::uint64_t value) {
  std::memcpy(memory + word * kStride, &value, sizeof value);
}

}  // namespace

DeviceProgram::DeviceProgram(const ProgramCard& card, std::vector<DeviceStream> streams,
                             std::uint64_t seed)
    : card_(card), streams_(std::move(streams)), random_(seed) {}

DeviceProgram::~DeviceProgram() {
  for (const DeviceEvent event : events_) static_cast<void>(card_.device.destroy_event(event));
}

void DeviceProgram::run(int steps) {
  for (int i = 0; i < steps; ++i) {
    const std::lock_guard lock(card_.lock);
    step();
    ASSERT_LE(card_.device.used(), card_.budget.limit()) << "the driver's own count";
  }
}

void DeviceProgram::step() {
  const std::uint64_t dice = random_() % 100;
  if (storages_.size() < 2 || (dice < 12 && storages_.size() < kMostStorages)) return create();
  if (dice < 50) return mix();
  if (dice < 58) return check(any());
  if (dice < 76) return evict();
  if (dice < 86) return prefetch();
  if (dice < 89) return static_cast<void>(card_.residency.give_up(any().id));
  if (dice < 96) return die(random_() % storages_.size());
  card_.residency.advance();
}

bool DeviceProgram::make_room(const std::vector<Operand>& kept) {
  if (card_.residency.make_room()) return true;
  for (const auto& storage : storages_) {
    const bool keep = std::ranges::any_of(
        kept, [&](const Operand& operand) { return operand.storage == storage.get(); });
    if (!keep && card_.residency.evict(storage->id)) return true;
  }
  return false;
}

void DeviceProgram::create() {
  auto storage = std::make_unique<Storage>();
  storage->granules = 1 + random_() % 4;
  const DeviceStream stream = any_stream();
  std::optional<StorageId> id;
  while (!(id = card_.residency.create({storage->granules * kGranule}, stream))) {
    if (!make_room({})) return;
  }
  storage->id = *id;
  const std::uint64_t salt = random_();
  storage->expected.resize(storage->granules * kWordsOfGranule);
  for (std::size_t i = 0; i < storage->expected.size(); ++i) storage->expected[i] = hash(salt, i);
  storages_.push_back(std::move(storage));
  const std::size_t words = storages_.back()->expected.size();
  launch(stream, {{storages_.back().get(), DeviceUse::kWrite}},
         [=](std::span<std::byte* const> at) {
           for (std::size_t i = 0; i < words; ++i) store(at[0], i, hash(salt, i));
         });
}

void DeviceProgram::mix() {
  Storage& target = any();
  Storage& first = any();
  Storage& second = any();
  if (&target == &first || &target == &second || &first == &second) return;
  const std::size_t words = target.expected.size();
  const std::size_t of_first = first.expected.size();
  const std::size_t of_second = second.expected.size();
  const std::uint64_t salt = random_();
  const bool launched = launch(
      any_stream(),
      {{&target, DeviceUse::kWrite}, {&first, DeviceUse::kRead}, {&second, DeviceUse::kRead}},
      [=](std::span<std::byte* const> at) {
        for (std::size_t i = 0; i < words; ++i) {
          const std::uint64_t in =
              hash(load(at[1], i % of_first), load(at[2], i % of_second) ^ salt);
          store(at[0], i, hash(load(at[0], i), in));
        }
      });
  if (!launched) return;
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t in =
        hash(first.expected[i % of_first], second.expected[i % of_second] ^ salt);
    target.expected[i] = hash(target.expected[i], in);
  }
}

void DeviceProgram::check(Storage& storage) {
  launch(any_stream(), {{&storage, DeviceUse::kRead}},
         [expected = storage.expected, wrong = wrong_](std::span<std::byte* const> at) {
           for (std::size_t i = 0; i < expected.size(); ++i) {
             if (load(at[0], i) != expected[i]) {
               ++*wrong;
               return;
             }
           }
         });
}

void DeviceProgram::evict() { static_cast<void>(card_.residency.evict(any().id)); }

void DeviceProgram::prefetch() { static_cast<void>(card_.residency.prefetch(any().id)); }

void DeviceProgram::die(std::size_t index) {
  std::swap(storages_[index], storages_.back());
  card_.residency.die(storages_.back()->id);
  storages_.pop_back();
}

bool DeviceProgram::pin(DeviceStream stream, const std::vector<Operand>& operands,
                        std::vector<DeviceAccess>& accesses) {
  for (const Operand& operand : operands) {
    std::optional<DeviceAddress> address;
    while (!(address = card_.residency.use(operand.storage->id, stream, operand.use))) {
      if (!make_room(operands)) return false;
    }
    accesses.push_back({*address, {operand.storage->granules * kGranule}});
  }
  return true;
}

void DeviceProgram::order(DeviceStream stream, const Operand& operand) {
  const auto after = [&](const Launched& launched) {
    if (launched.stream == stream) return;
    expect_done(card_.device, card_.device.stream_wait(stream, launched.event), "a wait");
  };
  if (operand.storage->written) after(*operand.storage->written);
  if (operand.use == DeviceUse::kRead) return;
  for (const Launched& launched : operand.storage->read) after(launched);
}

bool DeviceProgram::launch(DeviceStream stream, const std::vector<Operand>& operands,
                           DeviceKernel kernel) {
  std::vector<DeviceAccess> accesses;
  const bool pinned = pin(stream, operands, accesses);
  if (pinned) {
    for (const Operand& operand : operands) order(stream, operand);
    DeviceEvent event{};
    expect_done(card_.device, card_.device.create_event(EventTiming::kNo, event), "an event");
    events_.push_back(event);
    expect_done(card_.device, card_.device.launch(stream, accesses, std::move(kernel)), "a launch");
    expect_done(card_.device, card_.device.record(event, stream), "a record");
    ++kernels_;
    for (const Operand& operand : operands) {
      if (operand.use == DeviceUse::kWrite) {
        operand.storage->read.clear();
        operand.storage->written = Launched{stream, event};
      } else {
        operand.storage->read.push_back({stream, event});
      }
    }
  }
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    card_.residency.used(operands[i].storage->id, stream);
  }
  return pinned;
}

void DeviceProgram::finish() {
  const std::lock_guard lock(card_.lock);
  for (const auto& storage : storages_) check(*storage);
  expect_done(card_.device, card_.device.synchronize(), "the end");
  while (!storages_.empty()) die(storages_.size() - 1);
}

}  // namespace spillway::runtime
