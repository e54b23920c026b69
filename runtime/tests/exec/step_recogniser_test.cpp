// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/exec/step_recogniser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "program_models.hpp"

namespace spillway::runtime {
namespace {

// setup | step | step | step | ...
//       0      1      2      3      on the path and exact from here
TEST(StepRecogniserTest, FindsAPlainLoopWithinThreePeriods) {
  Stream stream;
  stream.op("seed", 0, {});
  Network network(stream, "", 20, false);
  const auto begins = repeat(stream, 60, [&](std::size_t) { network.train(32); });
  const Outcome result = run(stream);
  const std::uint64_t period = begins[1] - begins[0];
  EXPECT_EQ(result.recogniser.period(), period);
  EXPECT_LE(result.back_at(0), begins[2] + 1);
  EXPECT_EQ(result.back_at(begins[3]), begins[3]);
  const Shares steady = result.shares(begins[40], begins[58]);
  print("plain loop", steady, result);
  EXPECT_GE(steady.exact, 0.999);
  // Before the loop has proved itself, "never again" is not claimed, and nothing else is withheld.
  const Shares early = result.shares(begins[4], begins[6]);
  EXPECT_EQ(early.wrong, 0);
  EXPECT_GT(early.exact, 0.6);
  EXPECT_EQ(result.recogniser.statistics().mismatches, 0U);
  EXPECT_GE(result.recogniser.steps_completed(), 57U);
}

TEST(StepRecogniserTest, ABoundaryMakesTheFirstPredictionsComplete) {
  Stream stream;
  Network network(stream, "", 12, true);
  const auto begins = repeat(stream, 12, [&](std::size_t) {
    network.train(32);
    stream.boundary();
  });
  const Outcome result = run(stream);
  const Shares shares = result.shares(begins[3], begins[10]);
  print("equal layers, boundary", shares, result);
  EXPECT_GE(shares.exact, 0.999);
  for (std::size_t step = 3; step < 12; ++step) {
    EXPECT_EQ(result.position[begins[step]], 0U);
    EXPECT_EQ(result.position[begins[step] + 7], 7U);
  }
}

// An odd start is no reason to remember ever more.
TEST(StepRecogniserTest, RemembersNoMoreThanAPlainLoopNeeds) {
  Stream stream;
  Network network(stream, "", 12, true);
  const auto begins = repeat(stream, 400, [&](std::size_t) { network.train(32); });
  const Outcome result = run(stream);
  EXPECT_GT(result.recogniser.statistics().departures, 0U)
      << "equal layers look like steps at first";
  const std::uint64_t period = begins[1] - begins[0];
  EXPECT_LE(result.recogniser.remembered_ops(), std::max<std::uint64_t>(16 * period, 4096));
}

// One step of equal layers: L L L L ... loss L' L' L' ... update update ...
// Each run of equal layers looks like a period until it ends.
TEST(StepRecogniserTest, InnerLoopsOfEqualLayersGiveWayToTheStep) {
  Stream stream;
  Network network(stream, "", 12, true);
  const auto begins = repeat(stream, 80, [&](std::size_t) { network.train(32); });
  const Outcome result = run(stream);
  EXPECT_EQ(result.recogniser.period(), begins[1]);
  const Shares first = result.shares(0, begins[3]);
  print("equal layers, first 3", first, result);
  EXPECT_LE(first.wrong, 0.02);
  const Shares steady = result.shares(begins[60], begins[78]);
  print("equal layers, steady", steady, result);
  EXPECT_GE(steady.exact, 0.999);
  EXPECT_EQ(result.back_at(begins[3]), begins[3]);
}

TEST(StepRecogniserTest, FindsGradientAccumulation) {
  for (const bool equal : {false, true}) {
    Stream stream;
    Network network(stream, "", 10, equal);
    const auto begins = repeat(stream, 40, [&](std::size_t) {
      for (int micro = 0; micro < 4; ++micro) {
        network.loss_and_backward(8);
      }
      network.update();
    });
    const Outcome result = run(stream);
    const Shares steady = result.shares(begins[30], begins[38]);
    print("gradient accumulation", steady, result);
    EXPECT_EQ(result.recogniser.period(), begins[1]);
    EXPECT_GE(steady.exact, 0.99);
    EXPECT_EQ(result.shares(begins[3], begins[38]).wrong, 0);
  }
}

TEST(StepRecogniserTest, FindsTwoOptimizers) {
  Stream stream;
  Network generator(stream, "g", 6, true);
  Network critic(stream, "c", 8, true);
  const auto begins = repeat(stream, 40, [&](std::size_t) {
    for (int i = 0; i < 2; ++i) {
      critic.train(16);
      stream.boundary();
    }
    generator.train(16);
    stream.boundary();
  });
  const Outcome result = run(stream);
  const Shares steady = result.shares(begins[10], begins[38]);
  print("two optimizers", steady, result);
  EXPECT_EQ(result.recogniser.period(), begins[1]);
  EXPECT_GE(steady.exact, 0.99);
}

// epoch: T T T ... T E E E E | T T T ...
TEST(StepRecogniserTest, KeepsTrainingAndEvaluationApart) {
  Stream stream;
  Network network(stream, "", 10, false);
  // Epochs of unequal length, so that no longer period exists.
  const auto begins = repeat(stream, 8, [&](std::size_t epoch) {
    for (std::size_t i = 0; i < 60 + 3 * epoch; ++i) {
      network.train(32);
    }
    for (std::size_t i = 0; i < 7 + epoch; ++i) {
      network.evaluate(64);
    }
  });
  const Outcome result = run(stream);
  const Shares shares = result.shares(begins[4], begins[7]);
  print("train and eval", shares, result);
  EXPECT_GE(shares.exact, 0.97);
  EXPECT_LE(shares.wrong, 0.01);
  // From the second epoch on both changes are known places: no op is off the path.
  for (std::uint64_t op = begins[3]; op < begins[7]; ++op) {
    ASSERT_TRUE(result.on_path[op] != 0) << "op " << op;
  }
}

TEST(StepRecogniserTest, KnowsTheRaggedLastBatchAgain) {
  Stream stream;
  Network network(stream, "", 10, false);
  const auto begins = repeat(stream, 8, [&](std::size_t epoch) {
    for (std::size_t i = 0; i < 50 + epoch; ++i) {
      network.train(32);
    }
    network.train(13);
  });
  const Outcome result = run(stream);
  const Shares shares = result.shares(begins[3], begins[7]);
  print("ragged last batch", shares, result);
  EXPECT_GE(shares.exact, 0.99);
  for (std::uint64_t op = begins[3]; op < begins[7]; ++op) {
    ASSERT_TRUE(result.on_path[op] != 0) << "op " << op;
  }
}

// Every tenth step logs: the period that explains everything is ten steps long.
TEST(StepRecogniserTest, TakesTheLongerPeriodThatExplainsMore) {
  Stream stream;
  Network network(stream, "", 10, false);
  const Storage total = stream.fresh();
  const auto begins = repeat(stream, 80, [&](std::size_t step) {
    network.train(32);
    if (step % 10 == 9) {
      stream.op("item", 1, {total});
      stream.op("print", 1, {total});
    }
  });
  const Outcome result = run(stream);
  const Shares shares = result.shares(begins[60], begins[78]);
  print("log every ten steps", shares, result);
  EXPECT_EQ(result.recogniser.period(), begins[10]);
  EXPECT_GE(shares.exact, 0.99);
}

TEST(StepRecogniserTest, FindsAnUnrolledRecurrentNetwork) {
  Stream stream;
  const std::vector<Storage> weights = stream.fresh(2);
  const auto begins = repeat(stream, 30, [&](std::size_t) {
    std::vector<Storage> states = stream.fresh(1);
    for (int t = 0; t < 50; ++t) {
      const std::vector<Storage> out = stream.fresh(2);
      stream.op("mm", 1, {states.back(), weights[0], out[0]});
      stream.op("tanh", 1, {out[0], out[1]});
      states.push_back(out[1]);
    }
    Storage gradient = stream.fresh();
    stream.op("loss'", 1, {states.back(), gradient});
    const Storage sum = stream.fresh();
    for (int t = 50; t-- > 0;) {
      const std::vector<Storage> out = stream.fresh(2);
      stream.op("tanh'", 1, {gradient, states[static_cast<std::size_t>(t) + 1], out[0]});
      stream.op("mm'", 1, {out[0], weights[0], states[static_cast<std::size_t>(t)], sum, out[1]});
      gradient = out[1];
    }
    stream.op("sgd", 1, {weights[0], sum});
  });
  const Outcome result = run(stream);
  print("recurrent, first 3", result.shares(0, begins[3]), result);
  const Shares steady = result.shares(begins[22], begins[28]);
  print("recurrent, steady", steady, result);
  EXPECT_EQ(result.recogniser.period(), begins[1]);
  EXPECT_LE(result.shares(0, begins[3]).wrong, 0.03);
  EXPECT_GE(steady.exact, 0.99);
}

// Decoding with a cache that grows by one in each round: no shape comes twice.
TEST(StepRecogniserTest, ClaimsNothingAboutAGrowingSequence) {
  Stream stream;
  const std::vector<Storage> weights = stream.fresh(8);
  repeat(stream, 300, [&](std::size_t length) {
    Storage x = stream.fresh();
    for (const Storage weight : weights) {
      const std::vector<Storage> out = stream.fresh(2);
      stream.op("project", 1, {x, weight, out[0]});
      stream.op("attend", length + 10, {out[0], weight, out[1]});
      x = out[1];
    }
  });
  const Outcome result = run(stream);
  const Shares shares = result.shares(0, stream.size());
  print("growing sequence", shares, result);
  EXPECT_LE(shares.wrong, 0.001);
}

// step step ste[one-off ops]p step: the position is found again inside the step.
TEST(StepRecogniserTest, ReturnsWithinAWindowAfterAnInterruption) {
  for (const bool equal : {false, true}) {
    Stream stream;
    Network network(stream, "", 12, equal);
    std::vector<std::uint64_t> interruptions;
    const auto begins = repeat(stream, 30, [&](std::size_t step) {
      const std::uint64_t begin = stream.size();
      network.train(32);
      if (step > 5 && step % 5 == 0) {
        const std::uint64_t at = begin + 11 + 2 * step;
        const Op odd{step * 7919, false, {stream.fresh()}};
        stream.ops.insert(stream.ops.begin() + static_cast<std::ptrdiff_t>(at), 3, odd);
        interruptions.push_back(at);
      }
    });
    const Outcome result = run(stream);
    print("interruptions", result.shares(begins[6], begins[28]), result);
    for (const std::uint64_t at : interruptions) {
      EXPECT_EQ(result.on_path[at - 1], 1);
      EXPECT_EQ(result.on_path[at], 0);
      const std::uint64_t back = result.back_at(at);
      EXPECT_LE(back, at + 3 + StepRecogniser::kWindow);
      EXPECT_EQ(result.position[back], (result.position[at - 1] + 1 + back - at - 3) % begins[1]);
    }
  }
}

TEST(StepRecogniserTest, LeavesThePathWhenTheNumberOfTouchesChanges) {
  Stream stream;
  Network network(stream, "", 12, false);
  const auto begins = repeat(stream, 10, [&](std::size_t) { network.train(32); });
  stream.ops[begins[6] + 5].touches.push_back(stream.fresh());
  stream.ops[begins[8] + 25].touches.pop_back();
  const Outcome result = run(stream);
  for (const std::uint64_t odd : {begins[6] + 5, begins[8] + 25}) {
    EXPECT_EQ(result.on_path[odd], 1);
    EXPECT_EQ(result.on_path[odd + 1], 0);
    EXPECT_LE(result.back_at(odd + 1), odd + 1 + StepRecogniser::kWindow);
  }
}

// The same ops, but from step 20 on the weights are swapped with a second set in each step.
TEST(StepRecogniserTest, RecordsAnewWhenStoragesFlowDifferently) {
  Stream stream;
  const std::vector<Storage> a = stream.fresh(10);
  const auto begins = repeat(stream, 60, [&](std::size_t step) {
    Storage x = stream.fresh();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Storage y = stream.fresh();
      stream.op("mm", i, {x, a[i], y});
      x = y;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      stream.op("update", i, {a[step < 20 ? i : a.size() - 1 - i]});
    }
    stream.boundary();
  });
  const Outcome result = run(stream);
  EXPECT_EQ(result.shares(begins[3], begins[19]).exact, 1);
  const Shares late = result.shares(begins[25], begins[58]);
  print("storages flow differently", late, result);
  EXPECT_EQ(late.exact, 1);
  EXPECT_GE(result.recogniser.statistics().refreshes, 1U);
  EXPECT_GT(result.recogniser.statistics().mismatches, 0U);
}

// "Never again" is broken without a broken promise; only the audit sees it.
TEST(StepRecogniserTest, AuditsWhatItBelievesDead) {
  Stream stream;
  Storage previous = stream.fresh();
  const auto begins = repeat(stream, 200, [&](std::size_t step) {
    const Storage x = stream.fresh();
    for (std::uint64_t i = 0; i < 20; ++i) {
      stream.op("f", i, {i > 0 ? x : step < 20 ? stream.fresh() : previous, stream.fresh()});
    }
    previous = x;
    stream.boundary();
  });
  const Outcome result = run(stream);
  EXPECT_LT(result.shares(begins[25], begins[30]).exact, 1);
  EXPECT_EQ(result.shares(begins[150], begins[198]).exact, 1);
}

TEST(StepRecogniserTest, StaysUnknownWhenThePeriodExceedsItsMemory) {
  StepRecogniser recogniser;
  const std::uint64_t period = StepRecogniser::kMaxHistoryOps / 2 + 10;
  std::uint64_t known = 0;
  for (std::uint64_t op = 0; op < 3 * period; ++op) {
    recogniser.begin_op(1 + op % period);
    known += recogniser.touch(1) != kUnknownUse;
  }
  EXPECT_EQ(known, 0U);
  EXPECT_EQ(recogniser.period(), 0U);
}

TEST(StepRecogniserTest, FindsAPeriodJustWithinItsMemory) {
  StepRecogniser recogniser;
  const std::uint64_t period = StepRecogniser::kMaxHistoryOps / 2 - 50;
  for (std::uint64_t op = 0; op < 2 * period + 10; ++op) {
    recogniser.begin_op(1 + op % period);
    recogniser.touch(1 + op % period);
  }
  EXPECT_EQ(recogniser.period(), period);
  EXPECT_EQ(recogniser.touch(10), kUnknownUse) << "one touch more than recorded";
  recogniser.begin_op(1 + 10);
  EXPECT_FALSE(recogniser.on_path());
}

TEST(StepRecogniserTest, GivesTheLastCompletePeriod) {
  Stream stream;
  Network network(stream, "", 6, false);
  const auto begins = repeat(stream, 8, [&](std::size_t) {
    network.train(32);
    stream.boundary();
  });
  network.forward(32, stream.fresh());
  const Outcome result = run(stream);
  const RecordedStep step = result.recogniser.last_step();
  EXPECT_EQ(step.first_op, begins[7]);
  ASSERT_EQ(step.signatures.size(), begins[1]);
  std::vector<Storage> storages;
  for (std::uint64_t i = 0; i < begins[1]; ++i) {
    const Op& op = stream.ops[begins[7] + i];
    EXPECT_EQ(step.signatures[i], op.signature);
    EXPECT_EQ(step.touch_counts[i], op.touches.size());
    storages.insert(storages.end(), op.touches.begin(), op.touches.end());
  }
  EXPECT_EQ(step.storages, storages);
  EXPECT_TRUE(StepRecogniser().last_step().signatures.empty());
}

TEST(StepRecogniserTest, AnswersNothingBeforeTheFirstOp) {
  const StepRecogniser recogniser;
  EXPECT_EQ(recogniser.op_index(), 0U);
  EXPECT_EQ(recogniser.position(), 0U);
  EXPECT_FALSE(recogniser.on_path());
}

TEST(StepRecogniserTest, PredictsRandomProgramsOnceTheyRepeat) {
  const std::uint64_t first_seed = 20240501;
  for (std::uint64_t seed = first_seed; seed < first_seed + 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Stream stream;
    const std::vector<Storage> lasting = stream.fresh(40);
    const RandomProgram program(random, true);
    const std::size_t length = program.lines.size();
    const std::size_t times = 16 + 3 * StepRecogniser::kProofOps / length;
    const auto begins = repeat(stream, times, [&](std::size_t) { program.step(stream, lasting); });
    const Outcome result = run(stream);
    EXPECT_LE(result.back_at(0), std::max<std::uint64_t>(begins[3], 64));
    const Shares late = result.shares(begins[3 * times / 4], begins[times - 4]);
    EXPECT_GE(late.exact, 0.99);
    EXPECT_LE(result.shares(begins[4], begins[times - 4]).wrong, 0.01);
  }
}

// Blocks that repeat inside a program that does not are loops as far as anyone can tell, until they
// end; what is claimed about them is wrong at their ends.
TEST(StepRecogniserTest, ClaimsLittleAboutProgramsThatNeverRepeat) {
  const std::uint64_t first_seed = 77;
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool repeats_blocks = seed % 2 == 0;
    std::mt19937_64 random(seed);
    Stream stream;
    const std::vector<Storage> lasting = stream.fresh(40);
    repeat(stream, 100,
           [&](std::size_t) { RandomProgram(random, repeats_blocks).step(stream, lasting); });
    const Outcome result = run(stream);
    EXPECT_LE(result.shares(0, stream.size()).wrong, repeats_blocks ? 0.03 : 0.001);
  }
}

// More programs than records, changed at random and cut off in mid-step: records are dropped while
// branches and detours still name them.
TEST(StepRecogniserTest, SurvivesProgramsThatTakeTurnsAtRandom) {
  const std::uint64_t first_seed = 4711;
  for (std::uint64_t seed = first_seed; seed < first_seed + 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Stream stream;
    const std::vector<Storage> lasting = stream.fresh(40);
    std::vector<RandomProgram> programs;
    programs.reserve(20);
    for (int i = 0; i < 20; ++i) {
      programs.emplace_back(random, i % 2 == 0);
    }
    for (int turn = 0; turn < 150; ++turn) {
      const RandomProgram& program = programs[random() % programs.size()];
      repeat(stream, 1 + random() % 12, [&](std::size_t) { program.step(stream, lasting); });
      stream.ops.resize(stream.size() - random() % 20);
      stream.ops.back().boundary = random() % 4 == 0;
    }
    const Outcome result = run(stream);
    for (std::uint64_t op = 0; op < stream.size(); ++op) {
      for (std::uint64_t t = result.first_touch[op]; t < result.first_touch[op + 1]; ++t) {
        ASSERT_TRUE(result.said[t] == kUnknownUse || result.said[t] > op) << "op " << op;
      }
    }
    const RecogniserStatistics& statistics = result.recogniser.statistics();
    EXPECT_GT(statistics.loops_found, StepRecordSet::kMaxLoops);
    EXPECT_GT(statistics.detours_recorded, StepRecordSet::kMaxDetours);
    EXPECT_GT(statistics.branches, 0U);
    EXPECT_GT(result.shares(0, stream.size()).exact, result.shares(0, stream.size()).wrong);
  }
}

TEST(StepRecogniserTest, PrintsItsCost) {
  Stream stream;
  Network network(stream, "", 200, false);
  repeat(stream, 4, [&](std::size_t) { network.train(32); });
  const std::uint64_t period = stream.size() / 4;
  StepRecogniser recogniser;
  const auto play = [&](std::uint64_t rounds, bool touching, bool on_path) {
    std::uint64_t sum = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t i = 0; i < rounds * period; ++i) {
      const Op& op = stream.ops[3 * period + i % period];
      recogniser.begin_op(on_path ? op.signature : op.signature + i * 3);
      if (touching) {
        for (const Storage storage : op.touches) {
          sum ^= recogniser.touch(storage);
        }
      }
    }
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - begin;
    EXPECT_NE(sum, 1U);
    return elapsed.count() / static_cast<double>(rounds * period);
  };
  play(10, true, true);
  EXPECT_EQ(recogniser.period(), period);
  EXPECT_TRUE(recogniser.on_path());
  double both = std::numeric_limits<double>::max();
  for (int i = 0; i < 9; ++i) {
    both = std::min(both, play(20, true, true));
  }
  play(10, false, true);
  EXPECT_TRUE(recogniser.on_path());
  double ops = std::numeric_limits<double>::max();
  for (int i = 0; i < 9; ++i) {
    ops = std::min(ops, play(20, false, true));
  }
  const double off = play(20, true, false);
  const double touches =
      static_cast<double>(run(stream).said.size()) / 4 / static_cast<double>(period);
  std::printf("on the path: %.1f ns per op, %.1f ns per touch; off it: %.1f ns per op\n", ops,
              (both - ops) / touches, off);
}

}  // namespace
}  // namespace spillway::runtime
