// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "budgeted_memory.hpp"
#include "memory_observer.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/transfers.hpp"
#include "swap_store.hpp"

namespace spillway::tf {
namespace {

using runtime::Poison;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kAlignment = 64;

TEST(BudgetedMemoryTest, AlignsAndCounts) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  for (const std::size_t alignment : {std::size_t{1}, std::size_t{64}, std::size_t{4096}}) {
    for (const std::uint64_t bytes : {1U, 100U, 70'000U}) {
      std::byte* const place = memory.allocate({bytes}, alignment);
      ASSERT_NE(place, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % std::max(alignment, kAlignment), 0U);
      std::memset(place, 1, bytes);
      memory.free(place);
    }
  }
  std::byte* const large = memory.allocate(kMiB * 4, kAlignment);
  EXPECT_GE(memory.usage().live, kMiB * 4);
  memory.free(large);
  EXPECT_LT(memory.usage().live, kMiB);
  EXPECT_GE(memory.take_peak(), kMiB * 4);
  EXPECT_LT(memory.take_peak(), kMiB);
}

TEST(BudgetedMemoryTest, RefusesWhatDoesNotFitAndSaysHowMuch) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  EXPECT_EQ(memory.allocate(kMiB * 9, kAlignment), nullptr);
  EXPECT_THAT(BudgetedMemory::last_failure(), HasSubstr("need 9 MiB, have 8 MiB of 8 MiB, short"));
  std::byte* const place = memory.allocate(kMiB * 6, kAlignment);
  EXPECT_EQ(memory.try_allocate(kMiB * 6, kAlignment), nullptr);
  EXPECT_EQ(memory.usage().failures, 1U) << "who only tries does not fail";
  memory.free(place);
  EXPECT_NE(memory.try_allocate(kMiB * 6, kAlignment), nullptr);
}

TEST(BudgetedMemoryTest, SaysWhatWholePagesAreShortOf) {
  BudgetedMemory memory(kMiB * 2, Poison::kNo);
  ASSERT_NE(memory.allocate(kMiB * 2 - Bytes{140'000}, kAlignment), nullptr);
  const Bytes have = memory.limit() - memory.usage().live;
  ASSERT_EQ(memory.allocate(have - Bytes{1}, kAlignment), nullptr) << "its colour needs a page";
  EXPECT_THAT(BudgetedMemory::last_failure(), HasSubstr("short 4 KiB"));
  EXPECT_EQ(memory.usage().last_short, Bytes{4096});
}

TEST(BudgetedMemoryTest, SaysThatTheKernelRefuses) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  arm_faults("arena.map=ENOMEM@1+");
  EXPECT_EQ(memory.allocate(kMiB * 4, kAlignment), nullptr);
  arm_faults("");
  EXPECT_EQ(BudgetedMemory::last_failure(),
            "need 4 MiB, have 8 MiB of 8 MiB, which the kernel refuses");
  EXPECT_THAT(memory.reason(), HasSubstr("Raise vm.max_map_count"));
  EXPECT_THAT(memory.reason(), Not(HasSubstr("SPILLWAY_BUDGET")));
}

TEST(BudgetedMemoryTest, ChargesWhatEmptySpansHeld) {
  BudgetedMemory memory(kMiB * 2, Poison::kNo);
  memory.free(memory.allocate({100}, kAlignment));
  EXPECT_TRUE(memory.try_charge(kMiB * 2));
  memory.uncharge(kMiB * 2);
}

class CountedWaits final : public MemoryObserver {
 public:
  void allocated(const std::byte* /*pointer*/, Bytes /*bytes*/, Bytes /*live*/) override {}
  void freed(const std::byte* /*pointer*/) noexcept override {}
  void begins_to_wait(TimeNs now) override {
    ++begun;
    since = now;
  }
  void has_waited(TimeNs now) override {
    ++ended;
    waited += now - since;
  }

  int begun = 0;
  int ended = 0;
  TimeNs since = 0;
  TimeNs waited = 0;
};

TEST(BudgetedMemoryTest, TellsOfWaitsAndOfNothingElse) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  CountedWaits waits;
  memory.set_observer(waits);
  std::byte* first = nullptr;
  memory.set_victims([&](Bytes, Victims) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    if (first != nullptr) memory.free(std::exchange(first, nullptr));
  });
  first = memory.allocate(kMiB * 6, kAlignment);
  EXPECT_EQ(waits.begun, 0);
  EXPECT_NE(memory.allocate(kMiB * 6, kAlignment), nullptr);
  EXPECT_EQ(memory.allocate(kMiB * 9, kAlignment), nullptr) << "can never fit";
  EXPECT_EQ(waits.begun, 1);
  EXPECT_EQ(waits.ended, 1);
  EXPECT_GE(waits.waited, 3'000'000);
  EXPECT_EQ(waits.waited, memory.usage().waited_ns);
}

TEST(BudgetedMemoryTest, GivesBeyondTheBudgetWhereItHasTo) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  std::byte* const place = memory.allocate(kMiB * 6, kAlignment);
  std::byte* const beyond = memory.allocate_beyond(kMiB * 6, kAlignment);
  ASSERT_NE(beyond, nullptr);
  std::memset(beyond, 1, kMiB.count * 6);
  EXPECT_GE(memory.usage().peak_held, kMiB * 12);
  EXPECT_EQ(memory.try_allocate(kMiB, kAlignment), nullptr) << "the next has no room";
  memory.free(beyond);
  EXPECT_NE(memory.try_allocate(kMiB, kAlignment), nullptr);
  EXPECT_LE(memory.usage().held, kMiB * 8);
  memory.free(place);
}

TEST(BudgetedMemoryTest, AsksForWhatOpsUseHoweverLateItGetsToIt) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  std::byte* used = nullptr;
  memory.set_victims([&](Bytes, Victims victims) {
    if (victims == Victims::kIdle) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // more than its patience
    } else {
      memory.free(std::exchange(used, nullptr));
    }
  });
  used = memory.allocate(kMiB * 6, kAlignment);
  EXPECT_NE(memory.allocate(kMiB * 6, kAlignment), nullptr) << BudgetedMemory::last_failure();
}

TEST(BudgetedMemoryTest, WaitsForWhatAnotherThreadFrees) {
  BudgetedMemory memory(kMiB * 8, Poison::kNo);
  std::byte* const place = memory.allocate(kMiB * 6, kAlignment);
  // Said to be on its way, so the waiting has no end of its own.
  memory.expect_room(kMiB);
  std::atomic<std::byte*> second{nullptr};
  std::thread other([&] { second = memory.allocate(kMiB * 6, kAlignment); });
  while (memory.usage().waits == 0) std::this_thread::yield();
  memory.free(place);
  memory.room_came(kMiB);
  other.join();
  EXPECT_NE(second.load(), nullptr);
}

class SwapStoreTest : public ::testing::Test {
 public:
  ~SwapStoreTest() override { arm_faults(""); }

 protected:
  static runtime::TieredStoreOptions options(Bytes host, Bytes disk) {
    return {.host_budget = host,
            .spool = {.directory = ::testing::TempDir(), .budget = disk, .warn = {}},
            .verify = true};
  }

  std::shared_ptr<Copy> out(const std::byte* from, Bytes bytes, std::string* why = nullptr) {
    std::promise<std::shared_ptr<Copy>> promise;
    store_.swap_out(from, bytes, [&](std::shared_ptr<Copy> copy, const std::string& reason) {
      if (why != nullptr) *why = reason;
      promise.set_value(std::move(copy));
    });
    return promise.get_future().get();
  }

  BudgetedMemory memory_{kMiB * 8, Poison::kYes};
  SwapStore store_{options(kMiB, kMiB * 16), runtime::make_transfers(runtime::IoMethod::kThreads),
                   memory_};
};

TEST_F(SwapStoreTest, BringsBackWhatLeftFromHostAndDisk) {
  for (const Bytes bytes : {Bytes{1000}, kMiB, kMiB * 3}) {
    std::byte* const place = memory_.allocate(bytes, kAlignment);
    for (std::uint64_t i = 0; i < bytes.count; ++i) place[i] = static_cast<std::byte>(i * 7);
    const std::shared_ptr<Copy> copy = out(place, bytes);
    ASSERT_NE(copy, nullptr);
    memory_.free(place);
    std::promise<std::byte*> back;
    store_.swap_in(copy, kAlignment,
                   [&](std::byte* memory, const std::string&) { back.set_value(memory); });
    std::byte* const found = back.get_future().get();
    ASSERT_NE(found, nullptr);
    for (std::uint64_t i = 0; i < bytes.count; ++i) {
      ASSERT_EQ(found[i], static_cast<std::byte>(i * 7));
    }
    memory_.free(found);
  }
  EXPECT_EQ(store_.usage().places, 0U) << "copies went with their owners";
}

// Says that a transfer out has ended when it is told to, and not before.
class HeldOuts final : public runtime::Transfers {
 public:
  runtime::TransferId submit(runtime::Transfer transfer, runtime::TransferDone done) override {
    if (transfer.direction == runtime::Direction::kOut && holds.load()) {
      done = [this, done = std::move(done)](const runtime::TransferResult& result) {
        end_.get_future().wait();
        done(result);
      };
    }
    return transfers_->submit(transfer, std::move(done));
  }
  bool cancel(runtime::TransferId id) override { return transfers_->cancel(id); }
  bool hurry(runtime::TransferId id) override { return transfers_->hurry(id); }
  void drain() override { transfers_->drain(); }
  void before_fork() override { transfers_->before_fork(); }
  [[nodiscard]] runtime::IoMethod method() const override { return transfers_->method(); }

  void end() { end_.set_value(); }

  std::atomic<bool> holds{false};

 private:
  std::promise<void> end_;
  std::unique_ptr<runtime::Transfers> transfers_ =
      runtime::make_transfers(runtime::IoMethod::kThreads);
};

TEST_F(SwapStoreTest, ASwapInEndsWhileASwapOutHasNotEnded) {
  auto transfers = std::make_unique<HeldOuts>();
  HeldOuts& outs = *transfers;
  SwapStore store(options(Bytes{}, kMiB * 16), std::move(transfers), memory_);
  std::byte* const place = memory_.allocate(kMiB, kAlignment);
  std::memset(place, 5, kMiB.count);
  const auto begin_out = [&](std::promise<std::shared_ptr<Copy>>& copy) {
    store.swap_out(place, kMiB, [&](std::shared_ptr<Copy> made, const std::string& /*reason*/) {
      copy.set_value(std::move(made));
    });
  };
  std::promise<std::shared_ptr<Copy>> first;
  begin_out(first);
  const std::shared_ptr<Copy> there = first.get_future().get();
  outs.holds = true;
  std::promise<std::shared_ptr<Copy>> second;
  std::future<std::shared_ptr<Copy>> under_way = second.get_future();
  begin_out(second);
  std::promise<std::byte*> back;
  std::future<std::byte*> came = back.get_future();
  store.swap_in(there, kAlignment,
                [&](std::byte* memory, const std::string&) { back.set_value(memory); });
  const bool overlaps = came.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  EXPECT_TRUE(overlaps);
  EXPECT_EQ(under_way.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  outs.end();
  EXPECT_NE(under_way.get(), nullptr);
  std::byte* const found = came.get();
  EXPECT_EQ(found[kMiB.count - 1], std::byte{5});
  memory_.free(found);
  memory_.free(place);
}

TEST_F(SwapStoreTest, AFailingDiskAndAFullOneGiveAReasonAndNoCopy) {
  std::byte* const place = memory_.allocate(kMiB * 4, kAlignment);
  std::string why;
  arm_faults("spool.write=EIO@1+");
  EXPECT_EQ(out(place, kMiB * 4, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("Input/output error"));
  while (memory_.room_expected()) std::this_thread::yield();  // else the test hangs
  EXPECT_EQ(store_.out().bytes_per_second(7), 7) << "nothing passed";
  arm_faults("");
  std::vector<std::shared_ptr<Copy>> copies;
  copies.reserve(4);
  for (int i = 0; i < 4; ++i) copies.push_back(out(place, kMiB * 4));
  EXPECT_EQ(out(place, kMiB * 4, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("short"));
  while (memory_.room_expected()) std::this_thread::yield();
  memory_.free(place);
}

// Of 8 MiB there are 6 taken: a swap-in of 4 waits, one of 1 behind it does not.
TEST_F(SwapStoreTest, ASwapInWaitsForRoomAndLetsOthersPass) {
  std::byte* const place = memory_.allocate(kMiB * 4, kAlignment);
  std::memset(place, 5, kMiB.count * 4);
  const auto large = out(place, kMiB * 4);
  const auto small = out(place, kMiB);
  memory_.free(place);
  std::byte* const taken = memory_.allocate(kMiB * 6, kAlignment);
  std::promise<std::byte*> of_large;
  std::promise<std::byte*> of_small;
  store_.swap_in(large, kAlignment, [&](std::byte* memory, const std::string& reason) {
    EXPECT_EQ(reason, "");
    of_large.set_value(memory);
  });
  store_.swap_in(small, kAlignment,
                 [&](std::byte* memory, const std::string&) { of_small.set_value(memory); });
  std::byte* const second = of_small.get_future().get();
  ASSERT_NE(second, nullptr);
  memory_.free(taken);
  std::byte* const first = of_large.get_future().get();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first[kMiB.count * 4 - 1], std::byte{5});
  memory_.free(first);
  memory_.free(second);
}

// Of 8 MiB there are 7 taken. What is made ahead waits without end, lets one that is needed pass,
// asks for no victims, and leaves room to an allocation that waits.
TEST_F(SwapStoreTest, ASwapInAheadOfItsNeedTakesRoomThatNobodyElseWants) {
  std::byte* const place = memory_.allocate(kMiB * 2, kAlignment);
  std::memset(place, 5, kMiB.count * 2);
  const auto copy = out(place, kMiB * 2);
  memory_.free(place);
  std::atomic<int> asked = 0;
  memory_.set_victims([&](Bytes, Victims) { ++asked; });
  std::byte* const taken = memory_.allocate(kMiB * 5, kAlignment);
  std::byte* const more = memory_.allocate(kMiB * 2, kAlignment);
  std::promise<std::byte*> ahead;
  std::promise<std::byte*> needed;
  const auto keep = [](std::promise<std::byte*>& end) {
    return [&end](std::byte* memory, const std::string&) { end.set_value(memory); };
  };
  store_.swap_in(copy, kAlignment, keep(ahead), Urgency::kAhead);
  std::future<std::byte*> came_ahead = ahead.get_future();
  EXPECT_EQ(came_ahead.wait_for(std::chrono::milliseconds(2500)), std::future_status::timeout)
      << "longer than the patience for one that is needed";
  EXPECT_EQ(asked, 0);
  store_.swap_in(copy, kAlignment, keep(needed));
  memory_.free(more);
  std::byte* const first = needed.get_future().get();
  ASSERT_NE(first, nullptr);
  const int before = asked;  // by the one that was needed
  std::future<std::byte*> allocated =
      std::async(std::launch::async, [this] { return memory_.allocate(kMiB * 4, kAlignment); });
  while (asked == before) std::this_thread::yield();
  memory_.free(first);  // which is not enough for it
  EXPECT_EQ(came_ahead.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  memory_.free(taken);
  std::byte* const got = allocated.get();
  ASSERT_NE(got, nullptr);
  std::byte* const second = came_ahead.get();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second[kMiB.count * 2 - 1], std::byte{5});
  memory_.free(got);
  memory_.free(second);
}

TEST_F(SwapStoreTest, WhatWaitsCanBeCancelledAndElseFailsInTheEnd) {
  std::byte* const place = memory_.allocate(kMiB * 4, kAlignment);
  const auto copy = out(place, kMiB * 4);
  memory_.free(place);
  std::byte* const taken = memory_.allocate(kMiB * 6, kAlignment);
  std::promise<std::string> failed;
  const auto cancelled = store_.swap_in(copy, kAlignment, [](std::byte*, const std::string&) {
    ADD_FAILURE() << "it was cancelled";
  });
  store_.swap_in(copy, kAlignment, [&](std::byte* memory, const std::string& reason) {
    EXPECT_EQ(memory, nullptr);
    failed.set_value(reason);
  });
  EXPECT_TRUE(store_.cancel_in(cancelled));
  EXPECT_FALSE(store_.cancel_in(cancelled));
  EXPECT_THAT(failed.get_future().get(), HasSubstr("need 4 MiB, have "));
  EXPECT_EQ(memory_.usage().failures, 1U);
  EXPECT_GT(memory_.usage().last_short, Bytes{});
  memory_.free(taken);
}

TEST_F(SwapStoreTest, AForkedChildKeepsWhatItHasAndTheParentGoesOn) {
  std::byte* const place = memory_.allocate(kMiB, kAlignment);
  std::memset(place, 9, kMiB.count);
  const auto copy = out(place, kMiB);
  store_.pause();
  store_.before_fork();
  memory_.before_fork();
  const pid_t child = ::fork();
  memory_.after_fork(child == 0);
  store_.after_fork(child == 0);
  if (child == 0) {
    bool declined = false;
    store_.swap_out(place, kMiB, [&](const std::shared_ptr<Copy>& made, const std::string&) {
      declined = made == nullptr;
    });
    std::byte* const fresh = memory_.allocate(kMiB, kAlignment);
    ::_exit(declined && fresh != nullptr && place[5] == std::byte{9} ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::promise<std::byte*> back;
  store_.swap_in(copy, kAlignment,
                 [&](std::byte* memory, const std::string&) { back.set_value(memory); });
  std::byte* const found = back.get_future().get();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found[kMiB.count - 1], std::byte{9});
  memory_.free(found);
  memory_.free(place);
}

// A write that takes long keeps pause() waiting, with the store's threads held back already.
TEST_F(SwapStoreTest, SwapInsGoOnWhereTheLastOneIsCancelledWhileAForkBegins) {
  std::byte* const place = memory_.allocate(kMiB * 4, kAlignment);
  const auto copy = out(place, kMiB * 4);
  memory_.free(place);
  std::byte* const taken = memory_.allocate(kMiB * 6, kAlignment);
  const auto waiting = store_.swap_in(copy, kAlignment, [](std::byte*, const std::string&) {
    ADD_FAILURE() << "it was cancelled";
  });
  arm_faults("spool.write=delay:200ms@1+");
  std::promise<void> written;
  store_.swap_out(taken, kMiB * 2,
                  [&](const std::shared_ptr<Copy>&, const std::string&) { written.set_value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it is being written
  std::thread fork([this] {
    store_.pause();
    store_.before_fork();
    store_.after_fork(/*in_child=*/false);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(store_.cancel_in(waiting));
  fork.join();
  written.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until its thread has looked
  memory_.free(taken);
  std::promise<std::byte*> back;
  store_.swap_in(copy, kAlignment,
                 [&](std::byte* memory, const std::string&) { back.set_value(memory); });
  std::future<std::byte*> found = back.get_future();
  ASSERT_EQ(found.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  memory_.free(found.get());
}

TEST_F(SwapStoreTest, OneForkThatEndsLetsNothingBeginWhileAnotherIsUnderWay) {
  std::byte* const place = memory_.allocate(kMiB, kAlignment);
  store_.pause();
  store_.pause();
  store_.before_fork();
  store_.after_fork(/*in_child=*/false);
  std::promise<void> written;
  store_.swap_out(place, kMiB,
                  [&](const std::shared_ptr<Copy>&, const std::string&) { written.set_value(); });
  std::future<void> done = written.get_future();
  EXPECT_EQ(done.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  store_.before_fork();
  store_.after_fork(/*in_child=*/false);
  EXPECT_EQ(done.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  memory_.free(place);
}

// A fork waits for ends that are held back, as for the copies themselves.
TEST_F(SwapStoreTest, CopiesWhoseEndsAreHeldBackEndBeforeAFork) {
  SwapStore store(options(kMiB, kMiB * 16), runtime::make_transfers(runtime::IoMethod::kThreads),
                  memory_, std::make_unique<DelayedEnds>(1, std::chrono::hours(10)));
  std::byte* const place = memory_.allocate(kMiB, kAlignment);
  std::atomic<bool> ended = false;
  store.swap_out(place, kMiB, [&](const std::shared_ptr<Copy>& copy, const std::string&) {
    ended = copy != nullptr;
  });
  while (store.statistics().stored_on_host.count == 0) std::this_thread::yield();
  EXPECT_FALSE(ended);
  store.pause();
  EXPECT_TRUE(ended);
  store.before_fork();
  store.after_fork(/*in_child=*/false);
  memory_.free(place);
}

}  // namespace
}  // namespace spillway::tf
