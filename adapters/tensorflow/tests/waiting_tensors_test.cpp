// SPDX-License-Identifier: Apache-2.0
#include "waiting_tensors.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "budgeted_memory.hpp"
#include "swap_store.hpp"

namespace spillway::tf {
namespace {

using runtime::Poison;
using runtime::Transfer;
using runtime::TransferDone;
using runtime::TransferId;
using ::testing::HasSubstr;

constexpr std::size_t kAlignment = 64;
constexpr Bytes kSmallest{64 << 10};

// Holds every transfer until it is let through. Moves no bytes.
class GatedTransfers final : public runtime::Transfers {
 public:
  TransferId submit(Transfer transfer, TransferDone done) override {
    const std::lock_guard lock(mutex_);
    queue_.push_back({++last_, transfer, std::move(done)});
    return last_;
  }
  bool cancel(TransferId id) override {
    const std::lock_guard lock(mutex_);
    return std::erase_if(queue_, [id](const Waiting& waiting) { return waiting.id == id; }) != 0;
  }
  bool hurry(TransferId /*id*/) override { return false; }
  void drain() override {}
  void before_fork() override {}
  [[nodiscard]] runtime::IoMethod method() const override { return runtime::IoMethod::kThreads; }

  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return queue_.size();
  }
  /// The oldest ends, with an errno.
  void let_through(int error = 0) {
    Waiting next;
    {
      const std::lock_guard lock(mutex_);
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next.done({.error = error, .bytes = next.transfer.length, .duration = 1});
  }

 private:
  struct Waiting {
    TransferId id = 0;
    Transfer transfer;
    TransferDone done;
  };
  std::mutex mutex_;
  std::deque<Waiting> queue_;
  TransferId last_ = 0;
};

// Memory of the budget, and how many hold it.
class Buffer {
 public:
  Buffer(BudgetedMemory& memory, std::byte* place) : memory_(memory), place_(place) {}
  ~Buffer() { memory_.free(place_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::byte* place() const { return place_; }

 private:
  BudgetedMemory& memory_;
  std::byte* place_;
};

class HeldBuffer : public Held {
 public:
  explicit HeldBuffer(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {}
  [[nodiscard]] const std::byte* data() const override { return buffer_->place(); }
  [[nodiscard]] bool is_sole() const override { return buffer_.use_count() == 1; }
  [[nodiscard]] std::unique_ptr<Held> share() const override {
    return std::make_unique<HeldBuffer>(buffer_);
  }

 private:
  std::shared_ptr<Buffer> buffer_;
};

class WaitingTensorsTest : public ::testing::Test {
 public:
  ~WaitingTensorsTest() override {
    while (transfers_->waiting() != 0) transfers_->let_through();
  }

 protected:
  WaitingTensorsTest() {
    table_.add_holes(std::vector<bool>(8, false));
    memory_.set_victims([this](Bytes bytes, Victims) { waiting_.make_room(bytes); });
  }

  std::shared_ptr<Buffer> buffer(Bytes bytes) {
    std::byte* const place = memory_.allocate(bytes, kAlignment);
    EXPECT_NE(place, nullptr);
    return std::make_shared<Buffer>(memory_, place);
  }
  /// A tensor that nobody else holds.
  std::shared_ptr<WaitingTensor> wait(Bytes bytes, std::uint64_t hole, std::uint32_t holes = 1) {
    return waiting_.add(std::make_unique<HeldBuffer>(buffer(bytes)), bytes, hole, holes);
  }
  /// The table sees steps of a hole, with a tensor in the store in each, until it lets it pass.
  void let_pass(std::uint64_t hole) {
    for (int round = 0; round < 20 && table_.copies(hole, kMiB); ++round) {
      table_.stored(hole, kMiB);
      table_.dropped(hole, kMiB);
    }
    ASSERT_FALSE(table_.copies(hole, kMiB));
  }
  /// One that left in the hole.
  std::shared_ptr<WaitingTensor> away(Bytes bytes, std::uint64_t hole, std::uint32_t holes = 1) {
    const auto tensor = wait(bytes, hole, holes);
    waiting_.leave(tensor);
    until_written(1);
    transfers_->let_through();
    return tensor;
  }
  std::shared_ptr<RevocableWait> for_room() {
    return std::make_shared<RevocableWait>(
        [this](SwapStore::Ticket ticket) { return store_.cancel_in(ticket); });
  }
  /// Begins to bring it back ahead of its need, as a swap-in does.
  void bring_ahead(const std::shared_ptr<WaitingTensor>& tensor, std::uint64_t hole) {
    const auto wait = for_room();
    std::shared_ptr<Copy> copy = waiting_.begin_ahead(tensor, hole, wait);
    ASSERT_NE(copy, nullptr);
    const SwapStore::Ticket ticket = store_.swap_in(
        std::move(copy), kAlignment,
        [this, tensor](std::byte* place, const std::string&) {
          std::unique_ptr<Held> held;
          if (place != nullptr) {
            held = std::make_unique<HeldBuffer>(std::make_shared<Buffer>(memory_, place));
          }
          waiting_.came_ahead(tensor, std::move(held));
        },
        Urgency::kAhead);
    if (wait->know(ticket)) waiting_.came_ahead(tensor, nullptr);
  }
  /// Until so many transfers wait to be let through.
  void until_written(std::size_t count) {
    while (transfers_->waiting() != count) std::this_thread::yield();
    // The store's thread learns a transfer's number after that, and can cancel it only then. A fork
    // waits until that thread rests.
    store_.pause();
    store_.before_fork();
    store_.after_fork(false);
  }

  BudgetedMemory memory_{kMiB * 8, Poison::kNo};
  SwapTable table_{{.budget = kMiB * 8, .smallest = kSmallest, .least = Bytes{1}},
                   [] { return Bytes{}; }};
  Standstill standstill_{[] { return TimeNs{0}; }};
  GatedTransfers* transfers_ = new GatedTransfers;
  SwapStore store_{{.host_budget = Bytes{},
                    .spool = {.directory = ::testing::TempDir(), .budget = kMiB * 64, .warn = {}}},
                   std::unique_ptr<runtime::Transfers>(transfers_),
                   memory_};
  std::string stays_;
  WaitingTensors waiting_{store_, table_, standstill_,
                          [this](const std::string& reason) { stays_ = reason; }};
};

TEST_F(WaitingTensorsTest, WhatIsHereIsHandedOnAndHeldNoLonger) {
  const auto tensor = wait(kMiB * 2, 0);
  Taken taken = waiting_.take(tensor);
  ASSERT_NE(taken.held, nullptr);
  EXPECT_TRUE(taken.held->is_sole()) << "its user may put its result in its place";
  taken.held.reset();
  EXPECT_LT(memory_.usage().live, kMiB);
}

TEST_F(WaitingTensorsTest, WhatMovesIsNamedAfterItsMaker) {
  const auto tensor = waiting_.add(std::make_unique<HeldBuffer>(buffer(kMiB * 2)), kMiB * 2, 0, 1,
                                   "model/conv/Relu");
  waiting_.leave(tensor);
  until_written(1);
  EXPECT_TRUE(store_.top_movers().empty());
  transfers_->let_through();
  const auto movers = store_.top_movers();
  ASSERT_EQ(movers.size(), 1U);
  EXPECT_EQ(movers.front().name, "model/conv/Relu 2 MiB");
  EXPECT_EQ(movers.front().bytes, kMiB * 2);
}

// Swap-ins of one tensor may run at once. Here whoever asks the table for the second hole is held
// up until something else has happened.
class MeetingSwapInsTest : public WaitingTensorsTest {
 protected:
  MeetingSwapInsTest() { asked_.add_holes({true, false}); }

  std::function<void()> meanwhile_;
  SwapTable asked_{{.budget = kMiB * 8, .smallest = Bytes{1}},
                   [] { return Bytes{}; },
                   [this](std::size_t /*graph*/, std::int64_t /*step*/) {
                     if (meanwhile_) std::exchange(meanwhile_, {})();
                   }};
  WaitingTensors meeting_{store_, asked_, standstill_, [](const std::string&) {}};
};

TEST_F(MeetingSwapInsTest, ASwapInThatIsOvertakenGetsTheTensorToo) {
  const auto tensor = meeting_.add(std::make_unique<HeldBuffer>(buffer(kMiB * 2)), kMiB * 2, 0, 2);
  Taken last;
  meanwhile_ = [&] { last = meeting_.take(tensor); };
  Taken overtaken = meeting_.take(tensor);
  ASSERT_NE(last.held, nullptr);
  ASSERT_NE(overtaken.held, nullptr);
  EXPECT_EQ(overtaken.held->data(), last.held->data());
  last.held.reset();
  EXPECT_TRUE(overtaken.held->is_sole());
  overtaken.held.reset();
  EXPECT_LT(memory_.usage().live, kMiB);
  EXPECT_EQ(transfers_->waiting(), 0U) << "nobody would take what is written";
}

// The first swap-in is behind a gate that is shut.
TEST_F(WaitingTensorsTest, AHoleWhoseSwapInDoesNotRunIsPassedOver) {
  const auto here = wait(kMiB, 0, 2);
  waiting_.pass_over(here, 1);
  EXPECT_NE(waiting_.take(here).held, nullptr);
  EXPECT_EQ(table_.largest(1), Bytes{}) << "no hole follows that the table would be asked for";
  EXPECT_EQ(transfers_->waiting(), 0U);

  const auto away = wait(kMiB, 4, 2);
  waiting_.leave(away);
  until_written(1);
  transfers_->let_through();
  EXPECT_EQ(table_.state().used, 1U) << "it is counted in the hole it left in";
  waiting_.pass_over(away, 5);
  EXPECT_EQ(table_.state().used, 2U) << "and then in the next";
  EXPECT_NE(waiting_.take(away).copy, nullptr);
}

TEST_F(WaitingTensorsTest, WhatLeftIsFreedAndTakenAsACopyByEach) {
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  EXPECT_GE(memory_.usage().live, kMiB * 2);
  transfers_->let_through();
  EXPECT_LT(memory_.usage().live, kMiB);
  EXPECT_EQ(table_.state().used, 1U);
  for (int i = 0; i < 2; ++i) {
    const Taken taken = waiting_.take(tensor);
    EXPECT_EQ(taken.held, nullptr);
    ASSERT_NE(taken.copy, nullptr);
    EXPECT_EQ(taken.copy->bytes(), kMiB * 2);
  }
}

TEST_F(WaitingTensorsTest, WhatCameAheadIsTakenItself) {
  const auto tensor = away(kMiB * 2, 0);
  bring_ahead(tensor, 0);
  until_written(1);
  transfers_->let_through();
  EXPECT_GE(memory_.usage().live, kMiB * 2);
  Taken taken = waiting_.take(tensor);
  ASSERT_NE(taken.held, nullptr);
  EXPECT_TRUE(taken.held->is_sole());
  taken.held.reset();
  EXPECT_LT(memory_.usage().live, kMiB);
}

TEST_F(WaitingTensorsTest, WhatCameAheadLeavesAtOnceWhereRoomIsWanted) {
  const auto tensor = away(kMiB * 6, 0);
  bring_ahead(tensor, 0);
  until_written(1);
  transfers_->let_through();
  std::byte* const place = memory_.allocate(kMiB * 6, kAlignment);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(transfers_->waiting(), 0U) << "it has its copy";
  EXPECT_EQ(table_.state().late_leaves, 0U) << "it was not to stay";
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
  memory_.free(place);
}

TEST_F(WaitingTensorsTest, ASwapInWaitsForWhatIsComing) {
  const auto tensor = away(kMiB * 2, 0);
  bring_ahead(tensor, 0);
  until_written(1);
  bool again = false;
  Taken taken = waiting_.take(tensor, [&] { again = true; });
  EXPECT_EQ(taken.held, nullptr);
  EXPECT_EQ(taken.copy, nullptr);
  EXPECT_FALSE(again);
  transfers_->let_through();
  EXPECT_TRUE(again);
  EXPECT_NE(waiting_.take(tensor).held, nullptr);
}

TEST_F(WaitingTensorsTest, ASwapInBringsItselfWhatCouldNotComeAhead) {
  const auto failing = away(kMiB, 0);
  bring_ahead(failing, 0);
  until_written(1);
  transfers_->let_through(EIO);
  EXPECT_NE(waiting_.take(failing).copy, nullptr);

  const auto tensor = away(kMiB * 4, 1);
  std::byte* const place = memory_.allocate(kMiB * 6, kAlignment);
  bring_ahead(tensor, 1);
  bool again = false;
  EXPECT_EQ(waiting_.take(tensor, [&] { again = true; }).copy, nullptr);
  EXPECT_TRUE(again) << "it waited for room, and comes ahead no more";
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
  memory_.free(place);
  until_written(0);
  EXPECT_LT(memory_.usage().live, kMiB);
}

TEST_F(WaitingTensorsTest, ASwapInIsNotHeldUpByOneWhoseTicketIsToldLate) {
  const auto tensor = away(kMiB * 4, 0);
  std::byte* const place = memory_.allocate(kMiB * 6, kAlignment);
  const auto wait = for_room();
  const SwapStore::Ticket ticket = store_.swap_in(
      waiting_.begin_ahead(tensor, 0, wait), kAlignment,
      [](std::byte*, const std::string&) { ADD_FAILURE(); }, Urgency::kAhead);
  bool again = false;
  waiting_.take(tensor, [&] { again = true; });
  EXPECT_FALSE(again);
  ASSERT_TRUE(wait->know(ticket));
  waiting_.came_ahead(tensor, nullptr);
  EXPECT_TRUE(again);
  memory_.free(place);
}

// The swap-in of its second hole begins while that of the first asks the table.
TEST_F(MeetingSwapInsTest, ATensorThatBeginsToComeMeanwhileIsTakenAsACopy) {
  const auto tensor = meeting_.add(std::make_unique<HeldBuffer>(buffer(kMiB * 2)), kMiB * 2, 0, 2);
  meeting_.leave(tensor);
  until_written(1);
  transfers_->let_through();
  std::shared_ptr<Copy> ahead;
  meanwhile_ = [&] { ahead = meeting_.begin_ahead(tensor, 1, for_room()); };
  EXPECT_NE(meeting_.take(tensor).copy, nullptr);
  EXPECT_NE(ahead, nullptr);
  meeting_.came_ahead(tensor, std::make_unique<HeldBuffer>(buffer(kMiB * 2)));
  EXPECT_NE(meeting_.take(tensor).held, nullptr);
}

TEST_F(WaitingTensorsTest, WhatNobodyTakesDoesNotStayForHavingCome) {
  for (const bool has_room : {true, false}) {
    SCOPED_TRACE(has_room);
    auto tensor = away(kMiB * 4, 0);
    std::byte* const place = memory_.allocate(has_room ? kMiB : kMiB * 6, kAlignment);
    bring_ahead(tensor, 0);
    if (has_room) until_written(1);
    waiting_.abandon(tensor);
    tensor.reset();
    if (has_room) transfers_->let_through();
    memory_.free(place);
    until_written(0);
    EXPECT_LT(memory_.usage().live, kMiB);
  }
}

TEST_F(WaitingTensorsTest, WhatIsLeavingWhenItIsWantedStays) {
  const auto queued = wait(kMiB * 2, 0);
  waiting_.leave(queued);
  until_written(1);
  EXPECT_EQ(waiting_.begin_ahead(queued, 0, for_room()), nullptr);
  EXPECT_EQ(transfers_->waiting(), 0U) << "nobody needs the copy";
  EXPECT_NE(waiting_.take(queued).held, nullptr);

  const auto twice = wait(kMiB * 2, 1, 2);
  waiting_.leave(twice);
  until_written(1);
  EXPECT_EQ(waiting_.begin_ahead(twice, 1, for_room()), nullptr);
  transfers_->let_through();
  EXPECT_GE(memory_.usage().live, kMiB * 2);
  EXPECT_NE(waiting_.take(twice).held, nullptr);
  EXPECT_LT(memory_.usage().live, kMiB) << "it leaves for its next hole";
}

TEST_F(WaitingTensorsTest, WhatIsWantedLeavesAllTheSameForWantOfRoom) {
  const auto tensor = wait(kMiB * 6, 0);
  waiting_.leave(tensor);
  until_written(1);
  EXPECT_EQ(waiting_.begin_ahead(tensor, 0, for_room()), nullptr);
  std::future<std::byte*> place =
      std::async(std::launch::async, [this] { return memory_.allocate(kMiB * 6, kAlignment); });
  until_written(1);
  transfers_->let_through();
  std::byte* const got = place.get();
  EXPECT_NE(got, nullptr);
  memory_.free(got);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
}

TEST_F(WaitingTensorsTest, WhatIsPastTheHoleDoesNotComeAheadForIt) {
  const auto tensor = away(kMiB, 0, 2);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
  EXPECT_EQ(waiting_.begin_ahead(tensor, 0, for_room()), nullptr);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
  EXPECT_EQ(waiting_.begin_ahead(tensor, 1, for_room()), nullptr) << "its last swap-in has come";
}

// The swap-in of the second hole is due first, be it that no swap-in comes for the first.
TEST_F(WaitingTensorsTest, WhatComesAheadForALaterHoleIsThereForAnEarlierOneToo) {
  const auto tensor = away(kMiB, 0, 2);
  bring_ahead(tensor, 1);
  until_written(1);
  transfers_->let_through();
  EXPECT_NE(waiting_.take(tensor).held, nullptr);
  EXPECT_LT(memory_.usage().live, kMiB) << "it leaves for its second hole";
}

//   8 MiB:  [ a 3 | b 3 | c 1 ]   an allocation of 3 lacks 2: a leaves, which came first
TEST_F(WaitingTensorsTest, AnAllocationThatDoesNotFitLetsTheFirstThatCameLeave) {
  const auto a = wait(kMiB * 3, 0);
  const auto b = wait(kMiB * 3, 1);
  const auto c = wait(kMiB, 2);
  std::future<std::byte*> place =
      std::async(std::launch::async, [this] { return memory_.allocate(kMiB * 3, kAlignment); });
  until_written(1);
  transfers_->let_through();
  std::byte* const got = place.get();
  ASSERT_NE(got, nullptr);
  memory_.free(got);
  EXPECT_NE(waiting_.take(a).copy, nullptr);
  EXPECT_NE(waiting_.take(b).held, nullptr);
  EXPECT_NE(waiting_.take(c).held, nullptr);
  EXPECT_EQ(memory_.usage().failures, 0U);
}

TEST_F(WaitingTensorsTest, ATensorThatAnotherHoldsIsNoVictimUntilItLetsGo) {
  std::shared_ptr<Buffer> reader = buffer(kMiB * 6);
  const auto tensor = waiting_.add(std::make_unique<HeldBuffer>(reader), kMiB * 6, 0, 1);
  EXPECT_EQ(memory_.allocate(kMiB * 4, kAlignment), nullptr);
  EXPECT_THAT(BudgetedMemory::last_failure(), HasSubstr("need 4 MiB"));
  EXPECT_EQ(transfers_->waiting(), 0U);
  // The reader ends while somebody waits: nothing is freed by that, and nobody is woken.
  std::future<std::byte*> place =
      std::async(std::launch::async, [this] { return memory_.allocate(kMiB * 4, kAlignment); });
  while (memory_.usage().waits != 2) std::this_thread::yield();
  reader.reset();
  until_written(1);
  transfers_->let_through();
  std::byte* const got = place.get();
  EXPECT_NE(got, nullptr);
  memory_.free(got);
}

TEST_F(WaitingTensorsTest, ASwapInWithoutRoomAsksForVictimsToo) {
  const auto away = wait(kMiB * 5, 0);
  waiting_.leave(away);
  until_written(1);
  transfers_->let_through();
  const auto here = wait(kMiB * 6, 1);
  std::promise<std::byte*> back;
  store_.swap_in(waiting_.take(away).copy, kAlignment,
                 [&](std::byte* memory, const std::string&) { back.set_value(memory); });
  until_written(1);           // `here` leaves
  transfers_->let_through();  // it is away
  until_written(1);           // the swap-in reads
  transfers_->let_through();
  std::byte* const found = back.get_future().get();
  ASSERT_NE(found, nullptr);
  memory_.free(found);
  EXPECT_NE(waiting_.take(here).copy, nullptr);
}

TEST_F(WaitingTensorsTest, WhatCannotBeWrittenStaysAndIsAskedNoMore) {
  const auto tensor = wait(kMiB * 6, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  transfers_->let_through(EIO);
  EXPECT_THAT(stays_, HasSubstr("Input/output error"));
  EXPECT_NE(waiting_.take(tensor).held, nullptr);
  waiting_.make_room(kMiB);
  EXPECT_FALSE(memory_.room_expected());
}

TEST_F(WaitingTensorsTest, SmallOnesLeaveWhereNothingElseCan) {
  const Bytes small = kSmallest - Bytes{1};
  const auto first = wait(small, 0);
  const auto large = wait(kMiB, 1);
  EXPECT_EQ(waiting_.make_room(kMiB), kMiB);
  EXPECT_FALSE(table_.copies(0, small));
  EXPECT_EQ(waiting_.make_room(kMiB, Smallest::kOfTable), Bytes{});
  EXPECT_EQ(waiting_.make_room(kMiB), small);
  EXPECT_TRUE(table_.copies(0, small));
  until_written(2);
  transfers_->let_through();
  EXPECT_NE(waiting_.take(large).copy, nullptr);
  transfers_->let_through();
  EXPECT_NE(waiting_.take(first).copy, nullptr);
}

TEST_F(WaitingTensorsTest, AHoleWhoseTensorHadToLeaveCopiesFromThenOn) {
  let_pass(0);
  const auto tensor = wait(kMiB, 0);
  waiting_.make_room(kMiB);
  until_written(1);
  transfers_->let_through();
  for (int round = 0; round < 20; ++round) EXPECT_TRUE(table_.copies(0, kMiB));
}

//   make ──hole 0: passes──> first use ──hole 1: copies──> second use
TEST_F(WaitingTensorsTest, ATensorStaysForOneHoleAndLeavesForTheNext) {
  let_pass(0);
  const auto tensor = wait(kMiB * 2, 0, 2);
  Taken first = waiting_.take(tensor);
  ASSERT_NE(first.held, nullptr);
  until_written(1);
  transfers_->let_through();
  EXPECT_GE(memory_.usage().live, kMiB * 2) << "its first user reads it";
  first.held.reset();
  EXPECT_LT(memory_.usage().live, kMiB);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
}

//   make ──hole 0: copies──> first use ──hole 1: passes──> second use
TEST_F(WaitingTensorsTest, WhatCameBackStaysForAHoleThatPasses) {
  let_pass(1);
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  transfers_->let_through();
  ASSERT_NE(waiting_.take(tensor).copy, nullptr);
  waiting_.came_back(tensor, std::make_unique<HeldBuffer>(buffer(kMiB * 2)));
  EXPECT_GE(memory_.usage().live, kMiB * 2);
  EXPECT_NE(waiting_.take(tensor).held, nullptr);
}

TEST_F(WaitingTensorsTest, WhatCameBackDoesNotStayForAHoleThatCopies) {
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  transfers_->let_through();
  ASSERT_NE(waiting_.take(tensor).copy, nullptr);
  waiting_.came_back(tensor, std::make_unique<HeldBuffer>(buffer(kMiB * 2)));
  EXPECT_LT(memory_.usage().live, kMiB);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
}

TEST_F(WaitingTensorsTest, WhatHasACopyLeavesAgainWithoutBeingWritten) {
  let_pass(1);
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  transfers_->let_through();
  ASSERT_NE(waiting_.take(tensor).copy, nullptr);
  waiting_.came_back(tensor, std::make_unique<HeldBuffer>(buffer(kMiB * 2)));
  waiting_.make_room(kMiB);
  EXPECT_LT(memory_.usage().live, kMiB);
  EXPECT_EQ(transfers_->waiting(), 0U);
  EXPECT_NE(waiting_.take(tensor).copy, nullptr);
}

// The first write has begun, as far as the disk goes; the last take cancels the one behind it.
TEST_F(WaitingTensorsTest, TheLastTakeTakesBackASwapOutThatIsQueued) {
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  { const Taken first = waiting_.take(tensor); }
  EXPECT_EQ(transfers_->waiting(), 1U) << "another wait is to come";
  Taken last = waiting_.take(tensor);
  EXPECT_EQ(transfers_->waiting(), 0U);
  EXPECT_FALSE(memory_.room_expected());
  EXPECT_EQ(memory_.leaving(), Bytes{});
  ASSERT_NE(last.held, nullptr);
  EXPECT_TRUE(last.held->is_sole());
  EXPECT_EQ(store_.usage().places, 0U);
}

TEST_F(WaitingTensorsTest, WhatNobodyWillTakeIsWrittenNoMore) {
  auto tensor = wait(kMiB * 2, 0);
  waiting_.leave(tensor);
  until_written(1);
  waiting_.abandon(tensor);
  tensor.reset();
  EXPECT_EQ(transfers_->waiting(), 0U);
  EXPECT_LT(memory_.usage().live, kMiB);
}

// One write has begun and cannot be taken back: the tensor is handed on, and its copy ends.
TEST_F(WaitingTensorsTest, ATensorWhoseCopyIsUnderWayIsHandedOnAndNotWrittenOver) {
  const auto tensor = wait(kMiB * 2, 0, 2);
  waiting_.leave(tensor);
  until_written(1);
  const Taken taken = waiting_.take(tensor);
  ASSERT_NE(taken.held, nullptr);
  EXPECT_FALSE(taken.held->is_sole()) << "who reads it is the copy";
  transfers_->let_through();
  EXPECT_TRUE(taken.held->is_sole());
}

// Of 8 MiB more than one is on its way: who computes waits, though there is room.
TEST_F(WaitingTensorsTest, OpsAreHeldBackWhileMuchIsOnItsWayOut) {
  const auto tensor = wait(kMiB * 2, 0);
  waiting_.leave(tensor);
  until_written(1);
  std::byte* const small = memory_.allocate(Bytes{1000}, kAlignment);
  EXPECT_NE(small, nullptr);
  EXPECT_EQ(memory_.usage().waits, 0U);
  std::future<std::byte*> place =
      std::async(std::launch::async, [this] { return memory_.allocate(kMiB, kAlignment); });
  while (memory_.usage().waits == 0) std::this_thread::yield();
  EXPECT_EQ(place.wait_for(std::chrono::milliseconds(30)), std::future_status::timeout);
  transfers_->let_through();
  memory_.free(place.get());
  memory_.free(small);
}

}  // namespace
}  // namespace spillway::tf
