// SPDX-License-Identifier: Apache-2.0
// How long is a step under the plans of each planner, over the corpus of steps, machines and
// budgets, beside the lower bound?
//
//     spillway_planner_corpus SOURCE_TREE [EVERY [FIRST]]
//
// One line of tab-separated values a case: family, step, machine, ops, share, budget, peak, step
// without limit, bound, then for each planner the step in ns (0: no plan) and the processor's
// seconds for planning. EVERY 3 takes each third case, from the case FIRST on.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "corpus.hpp"
#include "spillway/machine/machine_io.hpp"

namespace spillway::planning {
namespace {

void print_result(const CorpusResult& result, std::string_view name) {
  fmt::print("\t{}\t{:.0f}\t{:.3f}", name, result.step_ns.value_or(0), result.processor_seconds);
}

int run(const std::string& tree, std::size_t every, std::size_t first) {
  const std::vector<CorpusStep> steps = corpus_steps(tree);
  std::vector<std::string> flaws;
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
      const std::size_t known_flaws = flaws.size();
      const CorpusCase done = run_case(given, PlanningContext{}.time_limit_ns, flaws);
      for (std::size_t i = known_flaws; i < flaws.size(); ++i) {
        fmt::print(stderr, "wrong plan for {} on {}: {}\n", step.name, row.machine, flaws[i]);
      }
      fmt::print("{}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.0f}\t{:.0f}", step.family, step.name, row.machine,
                 problem->trace.ops.size(), share, given.budgets[Tier::kDevice].count,
                 problem->peak.count, done.compute_ns, done.bound_ns);
      for (const CorpusResult& other : done.others) print_result(other, other.planner);
      print_result(done.hybrid, "hybrid");
      print_result(done.alone, "hybrid --borrow off");
      print_result(done.seeded, "hybrid --seed all");
      fmt::print("\n");
      std::fflush(stdout);
    }
  }
  return flaws.empty() ? 0 : 1;
}

}  // namespace
}  // namespace spillway::planning

int main(int argc, char** argv) {
  const auto number = [&](int at, std::size_t otherwise) {
    return argc > at ? std::strtoull(argv[at], nullptr, 10) : otherwise;
  };
  try {
    return spillway::planning::run(argc > 1 ? argv[1] : ".", number(2, 1), number(3, 0));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
