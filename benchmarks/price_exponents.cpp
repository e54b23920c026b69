// SPDX-License-Identifier: Apache-2.0
// Which exponents should the price of a storage that leaves have? `away_exponent` weighs how long
// it stays away, `surplus_exponent` how much of it is more than what is short (pass/sweep.hpp).
//
//     spillway_price_exponents SOURCE_TREE [EVERY [FIRST]]
//
// One pass plans each case of the corpus for every pair of exponents, all other settings being
// those that hybrid begins with. One line of tab-separated values a case and pair: step, machine,
// share, surplus exponent, away exponent, the simulated step over the lower bound (0: no plan).
// EVERY 3 takes each third case, from the case FIRST on. The same on every machine: no clock is
// asked.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "pass/sweep.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/planning/bound/lower_bound.hpp"

namespace spillway::planning {
namespace {

constexpr std::array kSurplus{0.0, 0.25, 0.5, 1.0};
constexpr std::array kAway{0.0, 0.5, 1.0, 1.5, 2.0, 3.0};

double step_over_bound(const Problem& problem, const StepModel& model, double bound, double surplus,
                       double away) {
  SweepSettings settings;
  settings.by_size = true;
  settings.surplus_exponent = surplus;
  settings.away_exponent = away;
  const SweepResult result = sweep(model, settings);
  if (!result.feasible) return 0;
  std::string flaw;
  const auto step = judged_step_ns(problem, write_plan(problem, model, result.draft, "pass"), flaw);
  return step ? *step / bound : 0;
}

void run(const std::string& tree, std::size_t every, std::size_t first) {
  const std::vector<CorpusStep> steps = corpus_steps(tree);
  std::size_t number = 0;
  for (const CorpusRow& row : corpus_rows(steps.size())) {
    const CorpusStep& step = steps[row.step];
    std::unique_ptr<CorpusProblem> problem;
    for (const double share : kCorpusShares) {
      if (number++ % every != first) continue;
      if (!problem) {
        const Machine machine = read_machine(tree + "/machines/" + row.machine + ".json");
        problem = std::make_unique<CorpusProblem>(step, machine);
      }
      const Problem given = problem->at(share);
      const StepModel model(given);
      const auto bound = static_cast<double>(lower_bound(model).step_ns);
      for (const double surplus : kSurplus) {
        for (const double away : kAway) {
          fmt::print("{}\t{}\t{}\t{}\t{}\t{:.5f}\n", step.name, row.machine, share, surplus, away,
                     step_over_bound(given, model, bound, surplus, away));
        }
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace spillway::planning

int main(int argc, char** argv) {
  const auto number = [&](int at, std::size_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  try {
    spillway::planning::run(argc > 1 ? argv[1] : ".", number(2, 1), number(3, 0));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
