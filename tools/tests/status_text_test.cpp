// SPDX-License-Identifier: Apache-2.0
// The status line and the summary, and the sums behind both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include "run/status_line.hpp"
#include "run/status_totals.hpp"
#include "run/summary.hpp"

namespace spillway::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ProcessStatus busy_process() {
  ProcessStatus status;
  status.pid = 7;
  status.mode = runtime::Mode::kEnforce;
  status.budget = kGiB;
  status.device = kMiB * 812;
  status.disk = Bytes{kGiB.count * 21 / 10};
  status.peak_device = kMiB * 1021;
  status.evicted = kGiB * 8;
  status.clean_evicted = kGiB * 4;
  status.fetched = kGiB * 11;
  status.disk_written = kGiB * 8;
  status.disk_read = kGiB * 11;
  status.last_step_moved = Bytes{kGiB.count * 34 / 10};
  status.stall = 1'000'000'000;
  status.elapsed = 25'000'000'000;
  status.last_step = 1'800'000'000;
  status.steps = 12;
  status.pages = "page pool";
  status.io = "threads; io_uring: forbidden here, as in most containers";
  status.movers = {{"aten::convolution [2, 32, 96, 96, 96] float", kGiB * 3}};
  return status;
}

double stalled(const ProcessStatus& status) { return share_of_time(status.stall, status); }
StatusTotals totals_of(std::vector<ProcessStatus> processes) { return total_of(processes); }

TEST(StatusLineTest, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(format_status_line(totals_of({busy_process()}), 120),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  step 12 1.8 s");
}

// Of a card, whose tensors leave for the host's memory first.
TEST(StatusLineTest, NamesTheTiersThatHoldSomething) {
  ProcessStatus on_card = busy_process();
  on_card.host = kGiB * 3;
  on_card.unmanaged = kMiB * 600;
  EXPECT_EQ(
      format_status_line(totals_of({on_card}), 90),
      "spillway 812 MiB / 1 GiB  host 3 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  step 12");
  on_card.disk = Bytes{0};
  EXPECT_EQ(format_status_line(totals_of({on_card}), 80),
            "spillway 812 MiB / 1 GiB  host 3 GiB  moved 3.4 GiB/step  stall 4 %  step 12");
}

TEST(StatusLineTest, NamesThePlannerWhereThereIsRoom) {
  ProcessStatus planned = busy_process();
  planned.planner = "lms";
  const StatusTotals totals = totals_of({busy_process(), planned});
  EXPECT_EQ(format_status_line(totals, 120),
            "spillway 2x 1.6 GiB / 2 GiB  by lms  disk 4.2 GiB  moved 6.8 GiB/step  stall 4 %  "
            "step 12 1.8 s");
  EXPECT_EQ(format_status_line(totals, 85),
            "spillway 2x 1.6 GiB / 2 GiB  disk 4.2 GiB  moved 6.8 GiB/step  stall 4 %  step 12");
}

TEST(StatusLineTest, DropsTheLeastTellingPartsFirst) {
  const StatusTotals totals = totals_of({busy_process()});
  EXPECT_EQ(format_status_line(totals, 79),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  step 12");
  EXPECT_EQ(format_status_line(totals, 60),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  stall 4 %  step 12");
  EXPECT_EQ(format_status_line(totals, 36), "spillway 812 MiB / 1 GiB  stall 4 %");
  EXPECT_EQ(format_status_line(totals, 20), "812 MiB / 1 GiB");
  EXPECT_EQ(format_status_line(totals, 7), "812 MiB");
}

TEST(StatusLineTest, NeverExceedsAnyWidth) {
  ProcessStatus large = busy_process();
  large.host = kGiB * 900;
  large.steps = 123456789;
  large.mapping = large.elapsed;
  const StatusTotals totals = totals_of({large, large, large});
  for (std::size_t columns = 1; columns < 200; ++columns) {
    const std::string line = format_status_line(totals, columns);
    EXPECT_LE(line.size(), columns) << line;
    EXPECT_FALSE(line.empty()) << columns;
  }
}

TEST(StatusLineTest, CountsProcessesAndSumsTheirBytes) {
  EXPECT_THAT(format_status_line(totals_of({busy_process(), busy_process()}), 120),
              StartsWith("spillway 2x 1.6 GiB / 2 GiB  disk 4.2 GiB"));
}

TEST(StatusLineTest, SaysNothingOfStepsBeforeTheFirst) {
  ProcessStatus young = busy_process();
  young.steps = 0;
  const std::string line = format_status_line(totals_of({young}), 120);
  EXPECT_THAT(line, Not(HasSubstr("step")));
  EXPECT_THAT(line, HasSubstr("moved 19 GiB"));
}

TEST(StatusLineTest, SaysHowFarALongStepIs) {
  ProcessStatus slow = busy_process();
  slow.last_step = 118'000'000'000;
  slow.ops_in_step = 1200;
  slow.last_step_ops = 4650;
  EXPECT_EQ(format_status_line(totals_of({slow}), 120),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  "
            "step 12 1 min 58 s  op 1200 of 4650");
  EXPECT_EQ(format_status_line(totals_of({slow}), 79),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  stall 4 %  step 12  op 1200 of 4650");
  EXPECT_EQ(format_status_line(totals_of({slow}), 45),
            "spillway 812 MiB / 1 GiB  stall 4 %  step 12");
  slow.last_step = 4'900'000'000;
  EXPECT_THAT(format_status_line(totals_of({slow}), 120), Not(HasSubstr("op 1200")))
      << "a step of seconds needs none";
}

TEST(StatusLineTest, DoesNotGuessTheEndOfAStepOfAnotherKind) {
  ProcessStatus slow = busy_process();
  slow.last_step = 118'000'000'000;
  slow.ops_in_step = 4651;
  slow.last_step_ops = 4650;
  EXPECT_THAT(format_status_line(totals_of({slow}), 120), EndsWith("step 12 1 min 58 s  op 4651"));
}

TEST(StatusLineTest, CountsOpsBeforeTheFirstStepEnds) {
  ProcessStatus young = busy_process();
  young.steps = 0;
  young.last_step = 0;
  young.ops_in_step = 77;
  EXPECT_THAT(format_status_line(totals_of({young}), 120), EndsWith("stall 4 %  op 77"));
}

ProcessStatus resting_process() {
  ProcessStatus status = busy_process();
  status.evicted = status.clean_evicted = status.fetched = status.disk = Bytes{0};
  status.last_step_moved = Bytes{0};
  status.stopped_after_step = 4;
  status.steps = 60;
  status.movers.clear();
  return status;
}

TEST(StatusLineTest, SaysThatTheProgramFits) {
  const StatusTotals totals = totals_of({resting_process()});
  EXPECT_EQ(format_status_line(totals, 80),
            "spillway 812 MiB / 1 GiB  fits: stopped watching after step 4  step 60 1.8 s");
  EXPECT_EQ(format_status_line(totals, 62),
            "spillway 812 MiB / 1 GiB  fits: stopped watching after step 4");
}

// Without an optimizer nobody counts the steps that are not watched: none is shown as the last.
TEST(StatusLineTest, ShowsNoStepThatStandsStill) {
  ProcessStatus status = resting_process();
  status.steps = 4;
  EXPECT_EQ(format_status_line(totals_of({status}), 80),
            "spillway 812 MiB / 1 GiB  fits: stopped watching after step 4");
}

TEST(StatusLineTest, IsThatOfTheWatchedWhileSomeAre) {
  const std::string text = format_status_line(totals_of({resting_process(), busy_process()}), 120);
  EXPECT_THAT(text, Not(HasSubstr("fits")));
  EXPECT_THAT(text, HasSubstr("stall"));
}

TEST(SummaryTest, SaysThatTheProgramFits) {
  std::string text = format_summary(totals_of({resting_process()}));
  EXPECT_THAT(text, HasSubstr("  fits: stopped watching after step 4\n"));
  EXPECT_THAT(text, HasSubstr("steps     60, the last took 1.8 s"));
  EXPECT_THAT(text, HasSubstr("everything fitted"));
  ProcessStatus uncounted = resting_process();
  uncounted.steps = 4;
  text = format_summary(totals_of({uncounted}));
  EXPECT_THAT(text, HasSubstr("steps     4 while watched, the last took"));
  text = format_summary(totals_of({resting_process(), busy_process()}));
  EXPECT_THAT(text, HasSubstr("  fits: stopped watching in 1 of 2 processes\n"));
}

TEST(SummaryTest, SaysWhatAProgramDiedOf) {
  ProcessStatus status = resting_process();
  status.stopped_after_step = 0;
  status.shortages = 2;
  status.short_by = kKiB * 320;
  status.died_short = true;
  const std::string text = format_summary(totals_of({status}), true);
  EXPECT_THAT(text, HasSubstr("  ended: out of memory, short 320 KiB\n"));
  EXPECT_THAT(text, Not(HasSubstr("everything fitted")));
  EXPECT_THAT(text, HasSubstr("peak 1021 MiB"));
}

// It caught the error and went on, or went well.
TEST(SummaryTest, SaysWhatDidNotFitOfAProgramThatWentOn) {
  ProcessStatus status = resting_process();
  status.shortages = 2;
  status.short_by = kKiB * 320;
  for (const bool failed : {false, true}) {
    const std::string text = format_summary(totals_of({status}), failed);
    EXPECT_THAT(text, HasSubstr("  refused   2 ops that did not fit, short 320 KiB\n"));
    EXPECT_THAT(text, Not(HasSubstr("ended:")));
    EXPECT_THAT(text, Not(HasSubstr("everything fitted")));
  }
  status.died_short = true;
  EXPECT_THAT(format_summary(totals_of({status}), false), Not(HasSubstr("ended:")));
}

// Nothing moved, since the memory was given before anything could.
TEST(SummaryTest, ClaimsNoFitWhereTheBudgetWasExceeded) {
  ProcessStatus status = resting_process();
  status.overshoot = kMiB * 36;
  const std::string text = format_summary(totals_of({status}));
  EXPECT_THAT(text, HasSubstr("  overshoot 36 MiB above the budget at most\n"));
  EXPECT_THAT(text, HasSubstr("  evicted   nothing\n"));
}

// The process that died tells by how much, whatever the others say.
TEST(StatusTotalsTest, IsShortByWhatKilled) {
  ProcessStatus went_on = busy_process();
  went_on.shortages = 1;
  went_on.short_by = kMiB * 9;
  ProcessStatus died = busy_process();
  died.shortages = 1;
  died.short_by = kMiB * 2;
  died.died_short = true;
  for (const auto& processes : {std::vector{went_on, died}, std::vector{died, went_on}}) {
    EXPECT_EQ(totals_of(processes).sum.short_by, kMiB * 2);
    EXPECT_EQ(totals_of(processes).sum.shortages, 2U);
  }
}

TEST(StatusTotalsTest, TellsTheStepOfTheProcessWithTheMost) {
  ProcessStatus behind = busy_process();
  behind.steps = 11;
  behind.ops_in_step = 4000;
  behind.last_step_ops = 4650;
  ProcessStatus ahead = busy_process();
  ahead.ops_in_step = 20;
  ahead.last_step_ops = 4640;
  for (const auto& processes : {std::vector{behind, ahead}, std::vector{ahead, behind}}) {
    EXPECT_EQ(totals_of(processes).sum.ops_in_step, 20U);
    EXPECT_EQ(totals_of(processes).sum.last_step_ops, 4640U);
  }
}

TEST(StatusTotalsTest, StallIsAShareOfAllTheTime) {
  ProcessStatus idle = busy_process();
  idle.stall = 0;
  EXPECT_DOUBLE_EQ(stalled(totals_of({busy_process(), idle}).sum), 0.02);
  EXPECT_DOUBLE_EQ(stalled(ProcessStatus{}), 0);
}

// Two threads that wait at once for as long as the program runs: not 200 %.
TEST(StatusTotalsTest, StallIsNeverMoreThanAll) {
  ProcessStatus waiting = busy_process();
  waiting.stall = waiting.elapsed * 2;
  EXPECT_DOUBLE_EQ(stalled(waiting), 1);
}

TEST(StatusTotalsTest, MergesMoversByName) {
  ProcessStatus other = busy_process();
  other.movers.push_back({"aten::addmm [8, 8] float", kGiB * 5});
  const auto movers = totals_of({busy_process(), other}).sum.movers;
  ASSERT_EQ(movers.size(), 2U);
  EXPECT_EQ(movers[0].moved, kGiB * 6);
  EXPECT_EQ(movers[1].name, "aten::addmm [8, 8] float");
}

TEST(StatusTotalsTest, FindsTheFullestProcess) {
  ProcessStatus other = busy_process();
  other.peak_device = kMiB * 900;
  other.budget = kMiB * 901;
  EXPECT_EQ(totals_of({busy_process(), other}).fullest.budget, kMiB * 901);
}

class StatusPageReadingTest : public testing::Test {
 protected:
  StatusPageReadingTest() : page_(std::make_unique<runtime::StatusPage>()) {}

  std::unique_ptr<runtime::StatusPage> page_;
};

TEST_F(StatusPageReadingTest, SkipsFreeSlots) {
  page_->slots[3].pid = 42;
  page_->slots[3].budget_bytes = 1 << 20;
  const auto processes = read_processes(*page_);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].pid, 42U);
  EXPECT_EQ(processes[0].budget, kMiB);
}

// start 100 s ... 103 s published ... 107 s ended
TEST_F(StatusPageReadingTest, KnowsTheTimeOfTheWholeRun) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  runtime::StatusSlot& slot = page_->slots[0];
  slot.pid = 42;
  slot.elapsed_ns = 3 * kSecond;
  EXPECT_EQ(read_processes(*page_)[0].elapsed, 3'000'000'000) << "no start is known";
  slot.started_ns = 100 * kSecond;
  slot.ended_ns = 107 * kSecond;
  EXPECT_EQ(read_processes(*page_)[0].elapsed, 7'000'000'000);
}

TEST_F(StatusPageReadingTest, NotesTheEndOfWhoeverIsGone) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  page_->slots[0].pid = static_cast<std::uint32_t>(gone);
  page_->slots[1].pid = static_cast<std::uint32_t>(getpid());
  page_->slots[0].started_ns = page_->slots[1].started_ns = 1;
  note_ends(*page_);
  EXPECT_NE(page_->slots[0].ended_ns, 0U);
  EXPECT_EQ(page_->slots[1].ended_ns, 0U);
  const std::uint64_t ended = page_->slots[0].ended_ns;
  note_ends(*page_);
  EXPECT_EQ(page_->slots[0].ended_ns, ended) << "the first look is the nearest";
}

TEST_F(StatusPageReadingTest, LeavesOutWhoWaitsForTheProgramToUseACard) {
  page_->slots[0].pid = 41;
  page_->slots[1].pid = 42;
  EXPECT_FALSE(anyone_waits_for_a_card(*page_));
  page_->slots[0].waits = 1;
  EXPECT_TRUE(anyone_waits_for_a_card(*page_));
  const auto processes = read_processes(*page_);
  ASSERT_EQ(processes.size(), 1U);
  EXPECT_EQ(processes[0].pid, 42U);
}

TEST_F(StatusPageReadingTest, TellsWhoDiedShort) {
  runtime::StatusSlot& slot = page_->slots[0];
  slot.pid = 42;
  slot.ops = 70;
  EXPECT_FALSE(read_processes(*page_)[0].died_short);
  slot.shortages = 1;
  slot.ops_at_shortage = 70;
  EXPECT_TRUE(read_processes(*page_)[0].died_short) << "nothing ran since";
  slot.ops = 71;
  EXPECT_FALSE(read_processes(*page_)[0].died_short);
  slot.ending = static_cast<std::uint32_t>(runtime::Ending::kOutOfMemory);
  EXPECT_TRUE(read_processes(*page_)[0].died_short);
}

TEST_F(StatusPageReadingTest, DoesNotGuessHowWhoCountsNoOpsDied) {
  runtime::StatusSlot& slot = page_->slots[0];
  slot.pid = 42;
  slot.shortages = 1;
  EXPECT_FALSE(read_processes(*page_)[0].died_short);
}

// Read between two updates, the step may seem to begin after the last op.
TEST_F(StatusPageReadingTest, CountsTheOpsOfTheStep) {
  runtime::StatusSlot& slot = page_->slots[0];
  slot.pid = 42;
  slot.ops = 5000;
  slot.step_began_ops = 3800;
  slot.last_step_ops = 4650;
  EXPECT_EQ(read_processes(*page_)[0].ops_in_step, 1200U);
  EXPECT_EQ(read_processes(*page_)[0].last_step_ops, 4650U);
  slot.step_began_ops = 5001;
  EXPECT_EQ(read_processes(*page_)[0].ops_in_step, 0U);
}

// A name without its end, an escape sequence in it, a mode of a later version: read, but harmless.
TEST_F(StatusPageReadingTest, TrustsNothingInASlot) {
  runtime::StatusSlot& slot = page_->slots[0];
  slot.pid = 1;
  slot.mode = 1000;
  slot.io.fill('\n');
  slot.pages.fill('\n');
  slot.planner.fill('\n');
  slot.notes.fill('n');
  slot.notes[3] = '\n';
  slot.notes[4] = '\033';
  slot.movers[0].name.fill('x');
  slot.movers[0].name[0] = '\033';
  slot.movers[0].moved_bytes = 1;
  const auto processes = read_processes(*page_);
  EXPECT_EQ(processes[0].mode, runtime::Mode::kOff);
  EXPECT_EQ(processes[0].io, std::string(runtime::kIoNameBytes, '?'));
  EXPECT_EQ(processes[0].pages, std::string(runtime::kPagesNameBytes, '?'));
  EXPECT_EQ(processes[0].planner, std::string(runtime::kPlannerNameBytes, '?'));
  EXPECT_EQ(processes[0].notes,
            (std::vector{std::string("nnn"), "?" + std::string(runtime::kNotesBytes - 5, 'n')}));
  ASSERT_EQ(processes[0].movers.size(), 1U);
  EXPECT_EQ(processes[0].movers[0].name, "?" + std::string(runtime::kMoverNameBytes - 1, 'x'));
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(SummaryTest, NamesEveryFigure) {
  EXPECT_EQ(format_summary(totals_of({busy_process()})),
            "spillway: enforce for 25 s\n"
            "  device    peak 1021 MiB of budget 1 GiB\n"
            "  pages     page pool\n"
            "  evicted   12 GiB, of which 4 GiB clean (no copy needed)\n"
            "  fetched   11 GiB\n"
            "  disk      written 8 GiB, read 11 GiB\n"
            "  transfers threads; io_uring: forbidden here, as in most containers\n"
            "  stall     1 s, 4 % of 25 s\n"
            "  steps     12, the last took 1.8 s and moved 3.4 GiB\n"
            "  largest movers (out and in)\n"
            "      3 GiB  aten::convolution [2, 32, 96, 96, 96] float\n");
}

TEST(SummaryTest, SaysHowLongACardsMemoryTookToMap) {
  EXPECT_THAT(format_summary(totals_of({busy_process()})), Not(HasSubstr("mapping")));
  ProcessStatus on_card = busy_process();
  on_card.mapping = 10'000'000'000;
  EXPECT_THAT(format_summary(totals_of({on_card})),
              HasSubstr("\n  mapping   10 s, 40 % of 25 s\n"));
  on_card.evicted = on_card.clean_evicted = on_card.fetched = Bytes{0};
  EXPECT_THAT(format_summary(totals_of({on_card})), HasSubstr("\n  mapping   10 s, 40 % of 25 s\n"))
      << "blocks of other sizes may come and go though nothing is moved";
}

TEST(StatusLineTest, SaysHowLongACardsMemoryTookToMap) {
  ProcessStatus on_card = busy_process();
  on_card.mapping = 10'000'000'000;
  EXPECT_EQ(format_status_line(totals_of({on_card}), 120),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  moved 3.4 GiB/step  stall 4 %  mapping 40 %  "
            "step 12 1.8 s");
  EXPECT_EQ(format_status_line(totals_of({on_card}), 79),
            "spillway 812 MiB / 1 GiB  disk 2.1 GiB  stall 4 %  mapping 40 %  step 12");
  EXPECT_EQ(format_status_line(totals_of({on_card}), 36), "spillway 812 MiB / 1 GiB  stall 4 %");
}

// A program that fits maps all in its first step.
TEST(MappingTest, ALittleIsNotShown) {
  ProcessStatus on_card = busy_process();
  on_card.mapping = 200'000'000;
  EXPECT_THAT(format_status_line(totals_of({on_card}), 120), Not(HasSubstr("mapping")));
  EXPECT_THAT(format_summary(totals_of({on_card})), Not(HasSubstr("mapping")));
}

TEST(SummaryTest, NamesThePlanner) {
  ProcessStatus planned = busy_process();
  EXPECT_EQ(format_summary(totals_of({planned})).find("planner"), std::string::npos);
  planned.planner = "lms threshold=4";
  EXPECT_NE(format_summary(totals_of({planned})).find("\n  planner   lms threshold=4\n"),
            std::string::npos);
}

TEST(SummaryTest, SaysWhatProcessesNotedOnce) {
  ProcessStatus one = busy_process();
  EXPECT_EQ(format_summary(totals_of({one})).find("note"), std::string::npos);
  one.notes = {"no activation leaves in 1 graph with dense/MatMul: an edge mixes frames of loops",
               "hybrid made no plan"};
  ProcessStatus other = one;
  other.notes = {"hybrid made no plan", "lms made no plan"};
  EXPECT_NE(
      format_summary(totals_of({one, other}))
          .find("\n  note      no activation leaves in 1 graph with dense/MatMul: an edge mixes\n"
                "            frames of loops\n"
                "  note      hybrid made no plan\n"
                "  note      lms made no plan\n"),
      std::string::npos)
      << format_summary(totals_of({one, other}));
}

TEST(SummaryTest, FitsEightyColumns) {
  ProcessStatus large = busy_process();
  large.notes = {std::string(100, 'n') + " is long"};
  large.movers.push_back({std::string(95, 'm'), kGiB});
  large.overshoot = kMiB;
  large.planner = std::string(runtime::kPlannerNameBytes, 'p');
  large.elapsed = large.stall = 3'600'000'000'000 * 1000;
  EXPECT_LE(widest_line(format_summary(totals_of({large, large}))), 80U);
  EXPECT_LE(widest_line(format_never_loaded(true)), 80U);
  EXPECT_LE(widest_line(format_never_loaded(false)), 80U);
}

TEST(SummaryTest, SaysThatNothingHadToMove) {
  ProcessStatus small = busy_process();
  small.evicted = small.clean_evicted = small.fetched = Bytes{0};
  const std::string text = format_summary(totals_of({small}));
  EXPECT_THAT(text, HasSubstr("nothing: everything fitted"));
  EXPECT_THAT(text, Not(HasSubstr("stall")));
}

TEST(SummaryTest, ClaimsNoFitWhereNothingCouldMove) {
  ProcessStatus off = busy_process();
  off.mode = runtime::Mode::kOff;
  off.evicted = off.clean_evicted = off.fetched = Bytes{0};
  EXPECT_THAT(format_summary(totals_of({off})), HasSubstr("nothing: mode off moves nothing"));
}

TEST(SummaryTest, OfARecordedRunHasPeakAndFloor) {
  ProcessStatus process = busy_process();
  process.mode = runtime::Mode::kRecord;
  process.budget = {};
  process.floor = kMiB * 231;
  EXPECT_THAT(format_summary(totals_of({process})),
              HasSubstr("  device    peak 1021 MiB, floor 231 MiB\n"));
}

TEST(SummaryTest, KnowsNoTimeOfTheFirstStep) {
  ProcessStatus first = busy_process();
  first.steps = 1;
  first.last_step = 0;
  EXPECT_THAT(format_summary(totals_of({first})), HasSubstr("  steps     1\n"));
  EXPECT_THAT(format_status_line(totals_of({first}), 200), Not(HasSubstr("0 ms")));
}

TEST(SummaryTest, ShowsAnOvershoot) {
  ProcessStatus over = busy_process();
  over.overshoot = kMiB * 3;
  EXPECT_THAT(format_summary(totals_of({over})), HasSubstr("overshoot 3 MiB above the budget"));
  EXPECT_THAT(format_summary(totals_of({busy_process()})), Not(HasSubstr("overshoot")));
}

TEST(NeverLoadedTest, NamesTheReasonWhereItIsKnown) {
  EXPECT_THAT(format_never_loaded(true), HasSubstr("TORCH_DEVICE_BACKEND_AUTOLOAD=0 is set"));
  EXPECT_THAT(format_never_loaded(false), HasSubstr("lacks Spillway: spillway doctor"));
}

}  // namespace
}  // namespace spillway::tools
