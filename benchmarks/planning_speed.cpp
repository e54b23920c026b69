// SPDX-License-Identifier: Apache-2.0
// Measures the cost of reading, simulating and planning, and how it grows with the step. `all` is
// what `spillway plan` does, called as functions: read, plan by hybrid, simulate, bound.
//
// Steps of the shape of training (testing/random_steps.hpp), from 1 000 ops up in factors of ten.
// `spillway_planning_speed write OPS FILE` writes such a step instead, for the command itself.
// `refusal` is the answer that no plan fits, and with what one would. Times are of the processor,
// each the least of three; the exponent is that of the last factor.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "spillway/base/processor_clock.hpp"
#include "spillway/planning/bound/lower_bound.hpp"
#include "spillway/planning/registry.hpp"
#include "spillway/planning/sim/simulator.hpp"
#include "spillway/testing/random_steps.hpp"
#include "spillway/testing/small_steps.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway {
namespace {

constexpr std::size_t kOpsPerLayer = 24;
constexpr std::array<const char*, 8> kQuestions{"read",    "simulate", "lru", "hybrid",
                                                "refusal", "bound",    "all", "bytes/op"};

double processor_seconds() {
  constexpr double kNsPerSecond = 1e9;
  return static_cast<double>(processor_time()) / kNsPerSecond;
}

// As many rounds at every length: the least of more is nearer to what an idle machine takes, which
// would tilt the exponent.
double least(const std::function<void()>& work) {
  constexpr int kRounds = 3;
  double shortest = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = processor_seconds();
    work();
    shortest = std::min(shortest, processor_seconds() - begin);
  }
  return shortest;
}

std::array<double, kQuestions.size()> measure(std::size_t ops) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("spillway-speed-{}.zst", ::getpid()))
          .string();
  write_trace(testing::layered_step(ops / kOpsPerLayer), path);
  const double bytes = static_cast<double>(std::filesystem::file_size(path));
  Trace trace;
  const double read = least([&] { trace = read_trace(path); });

  Machine machine = testing::plain_machine();
  for (auto& link : machine.links) link = Link{12e9, 10'000, ""};
  constexpr Bytes kAmple{std::uint64_t{1} << 50};
  const Budgets budgets{{Bytes{peak_bytes(trace).count / 2}, kAmple, Bytes{}}};
  const planning::Problem problem{trace, machine, budgets};
  auto outcome = planning::planner_named("lru").plan(problem);
  const double lru = least([&] { outcome = planning::planner_named("lru").plan(problem); });
  double simulate = 0;
  if (const auto* plan = std::get_if<Plan>(&outcome)) {
    simulate = least([&] { (void)planning::simulate(problem, *plan); });
  }
  planning::PlanningContext context;
  context.now = processor_time;
  const planning::Planner& planner = planning::planner_named("hybrid");
  const auto plan_by_hybrid = [&](const planning::Problem& given) {
    return planner.plan(given, planning::Options(planner.options()), context);
  };
  const double hybrid = least([&] { (void)plan_by_hybrid(problem); });
  // Half of the peak and a twelfth of it: less than has to be somewhere.
  Budgets too_little = budgets;
  too_little[Tier::kHost] = Bytes{peak_bytes(trace).count / 12};
  const double refusal = least([&] { (void)plan_by_hybrid(problem.with(too_little)); });
  const double bound = least([&] { (void)planning::lower_bound(planning::StepModel(problem)); });
  const double command = least([&] {
    const Trace again = read_trace(path);
    const planning::Problem given{again, machine, budgets};
    const planning::PlanOutcome planned = plan_by_hybrid(given);
    if (const auto* plan = std::get_if<Plan>(&planned)) (void)planning::simulate(given, *plan);
    (void)planning::lower_bound(planning::StepModel(given));
  });
  std::filesystem::remove(path);
  return {read,    simulate, lru,     hybrid,
          refusal, bound,    command, bytes / static_cast<double>(trace.ops.size())};
}

void print_table(std::size_t most_ops) {
  fmt::print("{:>10}", "ops");
  for (const char* question : kQuestions) fmt::print("{:>12}", question);
  fmt::print("\n");
  std::array<double, kQuestions.size()> before{};
  std::array<double, kQuestions.size()> now{};
  constexpr std::size_t kFactor = 10;
  for (std::size_t ops = 1'000; ops <= most_ops; ops *= kFactor) {
    before = std::exchange(now, measure(ops));
    fmt::print("{:>10}", ops);
    for (const double value : now) fmt::print("{:>12.3f}", value);
    fmt::print("\n");
  }
  fmt::print("{:>10}", "exponent");
  for (std::size_t i = 0; i + 1 < now.size(); ++i) {
    fmt::print("{:>12.2f}", std::log10(now[i] / before[i]));
  }
  fmt::print("\n");
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "write") {
    const std::size_t ops = std::strtoull(argv[2], nullptr, 10);
    spillway::write_trace(spillway::testing::layered_step(ops / spillway::kOpsPerLayer), argv[3]);
    return 0;
  }
  spillway::print_table(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000);
}
