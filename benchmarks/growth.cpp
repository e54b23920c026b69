// SPDX-License-Identifier: Apache-2.0
// spillway_growth live|shapes COUNT DIRECTORY: what an op costs as a program holds more or runs on.
//
//   live    COUNT storages are live and fill the budget; each of 500 ops makes one more, so that
//           one leaves, and another uses one of the newer ones. Tells microseconds per op: of the
//           processor, with the threads that copy, and in all. The first shortage, which puts in
//           order all that was used until then, is told apart.
//   shapes  COUNT steps, each of four ops in a shape that was never seen and will not come again,
//           half of whose storages leave. Tells the same for tenths of the run, with the process's
//           memory.
//
// Storages are not filled, so that memory is the engine's own. One JSON object on standard output.
#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/processor_clock.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/testing/fake_framework.hpp"

namespace spillway {
namespace {

using runtime::BudgetSpec;
using runtime::Engine;
using testing::drop_storage;
using testing::FakeOp;
using testing::FakeStorage;
using testing::make_storage;

// The smallest that is a block of its own: more would only cost address space.
constexpr std::uint64_t kSmallest = 36 << 10;

class Stretch {
 public:
  void end(std::uint64_t ops) {
    const auto wall = std::chrono::steady_clock::now() - wall_;
    ops_ = static_cast<double>(ops);
    wall_us_ = std::chrono::duration<double, std::micro>(wall).count();
    processor_us_ = static_cast<double>(processor_time() - processor_) / 1e3;
  }
  [[nodiscard]] std::string json() const {
    return fmt::format(R"({{"us_per_op": {:.3f}, "processor_us_per_op": {:.3f}}})", wall_us_ / ops_,
                       processor_us_ / ops_);
  }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  TimeNs processor_ = processor_time();
  double ops_ = 0;
  double wall_us_ = 0;
  double processor_us_ = 0;
};

void start(Engine& engine, Bytes budget, const std::string& directory) {
  runtime::Settings settings;
  settings.budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = budget};
  settings.disk_budget = BudgetSpec{.kind = BudgetSpec::Kind::kBytes, .bytes = kGiB * 8};
  settings.spool_dir = directory;
  settings.min_size = Bytes{kSmallest};
  engine.start(settings);
}

void live(Engine& engine, std::uint64_t count, const std::string& directory) {
  constexpr std::uint64_t kOps = 500;
  const auto make = [&](std::uint64_t signature) {
    const FakeOp op(engine, signature);
    return make_storage(engine, kSmallest);
  };
  start(engine, Bytes{(count + 1) * (kSmallest + (8 << 10))}, directory);
  std::vector<FakeStorage*> storages;
  for (std::uint64_t i = 0; i < count; ++i) storages.push_back(make(i));
  start(engine, engine.statistics().device, directory);
  Stretch first;
  storages.push_back(make(count));
  first.end(1);
  const std::uint64_t before = engine.statistics().moves.evictions;
  Stretch stretch;
  for (std::uint64_t i = 0; i < kOps; ++i) {
    {
      FakeOp op(engine, 2 * count + i);
      op.read(*storages[count - 1 - i % (count / 4)]);
    }
    storages.push_back(make(count + 1 + i));
  }
  stretch.end(2 * kOps);
  fmt::print(R"({{"live": {}, "left": {}, "first": {}, "cost": {}}})"
             "\n",
             count, engine.statistics().moves.evictions - before, first.json(), stretch.json());
}

void shapes(Engine& engine, std::uint64_t steps, const std::string& directory) {
  constexpr std::uint64_t kTenths = 10;
  constexpr std::size_t kHeld = 64;
  constexpr std::uint64_t kOpsPerStep = 4;
  constexpr std::uint64_t kShuffle = 7919;  // a prime: each size once, and as large early as late
  start(engine, Bytes{kHeld * (kSmallest + steps) / 2}, directory);
  std::deque<FakeStorage*> held;
  std::string tenths;
  for (std::uint64_t tenth = 0; tenth < kTenths; ++tenth) {
    Stretch stretch;
    for (std::uint64_t i = 0; i < steps / kTenths; ++i) {
      const std::uint64_t shape = tenth * (steps / kTenths) + i;
      for (std::uint64_t op = 0; op < kOpsPerStep; ++op) {
        const FakeOp frame(engine, shape * kOpsPerStep + op, op == 0);
        if (op % 2 == 0) held.push_back(make_storage(engine, kSmallest + shape * kShuffle % steps));
      }
      while (held.size() > kHeld) {
        drop_storage(engine, held.front());
        held.pop_front();
      }
    }
    stretch.end(steps / kTenths * kOpsPerStep);
    tenths += fmt::format(R"({}{{"cost": {}, "resident": {}}})", tenth == 0 ? "" : ", ",
                          stretch.json(), runtime::resident_bytes().count);
  }
  fmt::print(R"({{"steps": {}, "left": {}, "tenths": [{}]}})"
             "\n",
             steps, engine.statistics().moves.evictions, tenths);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} live|shapes COUNT DIRECTORY\n", argv[0]);
    return 2;
  }
  // Never destroyed, as in every program: storages outlive it.
  auto& framework = *new spillway::testing::FakeFramework();
  auto& engine =
      *new spillway::runtime::Engine(framework, {.colouring = spillway::runtime::Colouring::kNo});
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  const auto measure = std::string_view(argv[1]) == "live" ? spillway::live : spillway::shapes;
  measure(engine, count, argv[3]);
  return 0;
}
