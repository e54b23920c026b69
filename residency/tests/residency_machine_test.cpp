// SPDX-License-Identifier: Apache-2.0
// The residency machine by example: one storage, one history, the actions in full.
#include "spillway/residency/residency_machine.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::residency {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kSize{100};

std::string describe(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& a : actions) {
    if (!text.empty()) text += ", ";
    text += to_string(a.kind);
    const bool copy = a.kind == ActionKind::kStartCopy || a.kind == ActionKind::kReportFailure;
    if (copy) text += fmt::format(" {}>{}", to_string(a.from), to_string(a.to));
    if (a.kind == ActionKind::kFreeMemory) text += fmt::format(" {}", to_string(a.from));
  }
  return text;
}

class ResidencyMachineTest : public ::testing::Test {
 protected:
  /// Sends the event and tells what it made the machine do.
  std::string on(EventKind kind, Tier tier = Tier::kDevice) {
    std::vector<Action> actions;
    now_ += 10;
    machine_.on({kind, id_, tier}, now_, actions);
    for (const Action& action : actions) {
      EXPECT_EQ(action.id, id_);
      EXPECT_EQ(action.bytes, kSize);
    }
    return describe(actions);
  }
  std::string use() { return on(EventKind::kUse); }
  std::string write() { return on(EventKind::kWrite); }
  std::string evict(Tier tier) { return on(EventKind::kEvict, tier); }
  std::string completed() { return on(EventKind::kCopyCompleted); }
  std::string failed() { return on(EventKind::kCopyFailed); }
  std::string cancel() { return on(EventKind::kCancel); }

  void bring_to_host() {
    evict(Tier::kHost);
    completed();
  }
  void bring_to_disk() {
    evict(Tier::kDisk);
    completed();
  }

  [[nodiscard]] ResidencyState state() const { return machine_.state(id_); }
  /// Bytes used on device, host and disk.
  [[nodiscard]] std::vector<std::uint64_t> used() const {
    return {machine_.used(Tier::kDevice).count, machine_.used(Tier::kHost).count,
            machine_.used(Tier::kDisk).count};
  }
  using Used = std::vector<std::uint64_t>;

  ResidencyMachine machine_;
  StorageId id_ = machine_.create(kSize);
  TimeNs now_ = 0;
};

TEST_F(ResidencyMachineTest, StartsResidentWithoutCopies) {
  EXPECT_EQ(state(), ResidencyState::kResident);
  EXPECT_TRUE(machine_.has_copy(id_, Tier::kDevice));
  EXPECT_FALSE(machine_.has_copy(id_, Tier::kHost));
  EXPECT_EQ(used(), (Used{100, 0, 0}));
  EXPECT_EQ(use(), "");
}

//   device  ####|........|####      Evict, copy, Use, copy
//   host        |####|####|####     the copy stays after the fetch
TEST_F(ResidencyMachineTest, GoesToTheHostAndBackClean) {
  EXPECT_EQ(evict(Tier::kHost), "StartCopy device>host");
  EXPECT_EQ(state(), ResidencyState::kEvicting);
  EXPECT_EQ(used(), (Used{100, 100, 0}));
  EXPECT_FALSE(machine_.has_copy(id_, Tier::kHost));
  EXPECT_EQ(completed(), "Revoke, FreeMemory device, Wake");
  EXPECT_EQ(state(), ResidencyState::kOnHost);
  EXPECT_EQ(used(), (Used{0, 100, 0}));
  EXPECT_EQ(use(), "StartCopy host>device");
  EXPECT_EQ(used(), (Used{100, 100, 0}));
  EXPECT_FALSE(machine_.has_copy(id_, Tier::kDevice));
  EXPECT_EQ(completed(), "Grant, Wake");
  EXPECT_TRUE(machine_.has_copy(id_, Tier::kHost));
  EXPECT_EQ(evict(Tier::kDisk), "Revoke, FreeMemory device") << "clean: no transfer";
  EXPECT_EQ(state(), ResidencyState::kOnHost) << "where the copy is, not where it was asked to";
}

TEST_F(ResidencyMachineTest, WriteMakesCopiesStale) {
  bring_to_host();
  use();
  completed();
  EXPECT_EQ(write(), "FreeMemory host");
  EXPECT_EQ(used(), (Used{100, 0, 0}));
  EXPECT_EQ(evict(Tier::kHost), "StartCopy device>host");
}

//   Evict ---- copy ---- completed
//          Use ^                     the op keeps reading; nothing leaves
TEST_F(ResidencyMachineTest, ReadCancelsAnEvictionForFree) {
  evict(Tier::kDisk);
  EXPECT_EQ(use(), "");
  EXPECT_EQ(completed(), "Wake");
  EXPECT_EQ(state(), ResidencyState::kResident);
  EXPECT_TRUE(machine_.has_copy(id_, Tier::kDisk));
  EXPECT_EQ(evict(Tier::kHost), "Revoke, FreeMemory device");
  EXPECT_EQ(state(), ResidencyState::kOnDisk);
  EXPECT_EQ(machine_.statistics().rescued_evictions, 1U);
}

//   Evict ---- copy ---------------- completed
//          Write ^     Evict ^               the copy is half old, half new
TEST_F(ResidencyMachineTest, WriteSpoilsTheCopyWhateverFollows) {
  evict(Tier::kHost);
  EXPECT_EQ(write(), "");
  EXPECT_EQ(evict(Tier::kHost), "");
  EXPECT_EQ(completed(), "FreeMemory host, Wake");
  EXPECT_EQ(state(), ResidencyState::kResident);
  EXPECT_FALSE(machine_.has_copy(id_, Tier::kHost));
}

TEST_F(ResidencyMachineTest, EvictAfterReadResumesTheEviction) {
  evict(Tier::kHost);
  use();
  evict(Tier::kHost);
  EXPECT_EQ(completed(), "Revoke, FreeMemory device, Wake");
  EXPECT_EQ(state(), ResidencyState::kOnHost);
}

TEST_F(ResidencyMachineTest, FailedEvictionStaysResident) {
  evict(Tier::kDisk);
  EXPECT_EQ(failed(), "FreeMemory disk, ReportFailure device>disk, Wake");
  EXPECT_EQ(state(), ResidencyState::kResident);
  EXPECT_EQ(used(), (Used{100, 0, 0}));
}

TEST_F(ResidencyMachineTest, FailureAfterCancelIsNoNews) {
  evict(Tier::kDisk);
  cancel();
  EXPECT_EQ(failed(), "FreeMemory disk, Wake");
  evict(Tier::kDisk);
  EXPECT_EQ(failed(), "FreeMemory disk, ReportFailure device>disk, Wake")
      << "the next copy was not cancelled";
}

TEST_F(ResidencyMachineTest, DemotesFromHostToDisk) {
  bring_to_host();
  EXPECT_EQ(evict(Tier::kDisk), "StartCopy host>disk");
  EXPECT_EQ(state(), ResidencyState::kDemoting);
  EXPECT_EQ(used(), (Used{0, 100, 100}));
  EXPECT_EQ(completed(), "FreeMemory host, Wake");
  EXPECT_EQ(state(), ResidencyState::kOnDisk);
  EXPECT_EQ(use(), "StartCopy disk>device");
}

//   Evict(disk) ---- host>disk ---- end ---- host>device ---- end
//                 Write ^            no Wake: not settled
TEST_F(ResidencyMachineTest, UseDuringDemotionFetchesFromTheHostAtItsEnd) {
  bring_to_host();
  evict(Tier::kDisk);
  EXPECT_EQ(write(), "");
  EXPECT_EQ(completed(), "StartCopy host>device");
  EXPECT_EQ(state(), ResidencyState::kFetching);
  EXPECT_EQ(completed(), "FreeMemory host, FreeMemory disk, Grant, Wake");
  EXPECT_EQ(used(), (Used{100, 0, 0}));
}

TEST_F(ResidencyMachineTest, FailedDemotionStillFetches) {
  bring_to_host();
  evict(Tier::kDisk);
  use();
  EXPECT_EQ(failed(), "FreeMemory disk, ReportFailure host>disk, StartCopy host>device");
  EXPECT_EQ(completed(), "Grant, Wake");
  EXPECT_TRUE(machine_.has_copy(id_, Tier::kHost));
}

TEST_F(ResidencyMachineTest, CancelledDemotionKeepsBothCopies) {
  bring_to_host();
  evict(Tier::kDisk);
  cancel();
  EXPECT_EQ(completed(), "Wake");
  EXPECT_EQ(state(), ResidencyState::kOnHost);
  EXPECT_EQ(evict(Tier::kDisk), "FreeMemory host") << "the disk already has it";
  EXPECT_EQ(state(), ResidencyState::kOnDisk);
}

//   Use ---- disk>device -------------- completed
//                  Evict ^                   given up on arrival, never accessible
TEST_F(ResidencyMachineTest, UnwantedFetchIsGivenUpOnArrival) {
  bring_to_disk();
  write();
  evict(Tier::kHost);
  EXPECT_EQ(completed(), "Revoke, FreeMemory device, Wake");
  EXPECT_EQ(state(), ResidencyState::kOnDisk);
  EXPECT_TRUE(machine_.has_copy(id_, Tier::kDisk)) << "nothing could have been written";
  EXPECT_EQ(machine_.statistics().unwanted_fetches, 1U);
}

//   Write ---- disk>device ------------------- completed
//                   Evict ^     Use ^             the writer may go on without asking again
TEST_F(ResidencyMachineTest, WriteIsRememberedAcrossAWithdrawnEviction) {
  bring_to_disk();
  write();
  evict(Tier::kHost);
  use();
  EXPECT_EQ(completed(), "FreeMemory disk, Grant, Wake");
  EXPECT_FALSE(machine_.has_copy(id_, Tier::kDisk));
}

TEST_F(ResidencyMachineTest, FailedFetchGoesBackAndReports) {
  bring_to_disk();
  use();
  EXPECT_EQ(failed(), "FreeMemory device, ReportFailure disk>device, Wake");
  EXPECT_EQ(state(), ResidencyState::kOnDisk);
  EXPECT_EQ(used(), (Used{0, 0, 100}));
}

//   Evict ---- device>host ---- completed
//            Die ^                   nothing is freed under a running copy
TEST_F(ResidencyMachineTest, DeathWaitsForTheCopy) {
  evict(Tier::kHost);
  EXPECT_EQ(on(EventKind::kDie), "");
  EXPECT_TRUE(machine_.contains(id_));
  EXPECT_EQ(used(), (Used{100, 100, 0}));
  EXPECT_EQ(evict(Tier::kHost), "") << "a policy may not know yet";
  EXPECT_THROW(use(), InternalError);
  EXPECT_EQ(completed(), "FreeMemory device, FreeMemory host, Wake");
  EXPECT_FALSE(machine_.contains(id_));
  EXPECT_EQ(used(), (Used{0, 0, 0}));
}

TEST_F(ResidencyMachineTest, DeathFreesEveryTier) {
  bring_to_host();
  evict(Tier::kDisk);
  use();
  completed();
  completed();
  EXPECT_EQ(used(), (Used{100, 100, 100}));
  EXPECT_EQ(on(EventKind::kDie), "FreeMemory device, FreeMemory host, FreeMemory disk");
  EXPECT_THROW((void)machine_.state(id_), InternalError);
}

TEST_F(ResidencyMachineTest, DroppedIsRecomputed) {
  EXPECT_EQ(on(EventKind::kDrop), "Revoke, FreeMemory device");
  EXPECT_EQ(used(), (Used{0, 0, 0}));
  EXPECT_EQ(use(), "Recompute");
  EXPECT_EQ(used(), (Used{100, 0, 0}));
  EXPECT_EQ(failed(), "FreeMemory device, ReportFailure device>device, Wake");
  EXPECT_EQ(state(), ResidencyState::kDropped);
  use();
  EXPECT_EQ(completed(), "Grant, Wake");
  EXPECT_EQ(state(), ResidencyState::kResident);
}

TEST_F(ResidencyMachineTest, ExemptNeverMovesUntilReadmitted) {
  bring_to_host();
  use();
  completed();
  EXPECT_EQ(on(EventKind::kExempt), "FreeMemory host") << "foreign writes make it dirty";
  EXPECT_EQ(evict(Tier::kHost), "");
  EXPECT_EQ(on(EventKind::kDrop), "");
  EXPECT_EQ(state(), ResidencyState::kExempt);
  EXPECT_EQ(on(EventKind::kReadmit), "");
  EXPECT_EQ(evict(Tier::kHost), "StartCopy device>host");
}

TEST_F(ResidencyMachineTest, ExemptDuringAFlightHoldsAtItsEnd) {
  evict(Tier::kHost);
  on(EventKind::kExempt);
  EXPECT_EQ(completed(), "FreeMemory host, Wake");
  EXPECT_EQ(state(), ResidencyState::kExempt);
  on(EventKind::kReadmit);
  bring_to_host();
  EXPECT_EQ(on(EventKind::kExempt), "StartCopy host>device");
  EXPECT_EQ(evict(Tier::kHost), "") << "exported memory is not given up";
  EXPECT_EQ(completed(), "FreeMemory host, Grant, Wake");
  EXPECT_EQ(state(), ResidencyState::kExempt);
}

TEST_F(ResidencyMachineTest, BrokenContractsChangeNothing) {
  EXPECT_THROW(completed(), InternalError);
  EXPECT_THROW(failed(), InternalError);
  EXPECT_THROW(evict(Tier::kDevice), InternalError);
  std::vector<Action> actions;
  EXPECT_THROW(machine_.on({EventKind::kUse, StorageId{0}}, 0, actions), InternalError);
  EXPECT_TRUE(actions.empty());
  EXPECT_EQ(state(), ResidencyState::kResident);
  EXPECT_EQ(used(), (Used{100, 0, 0}));
  EXPECT_EQ(machine_.statistics().failed_copies, 0U);
  try {
    completed();
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no copy is in flight; event CopyCompleted"));
    EXPECT_THAT(error.what(), HasSubstr("in state Resident"));
  }
}

TEST_F(ResidencyMachineTest, AppendsToTheCallersActions) {
  std::vector<Action> actions{{ActionKind::kGrant, StorageId{7}}};
  machine_.on({EventKind::kEvict, id_, Tier::kHost}, 0, actions);
  ASSERT_EQ(actions.size(), 2U);
  EXPECT_EQ(actions[0].id, StorageId{7});
}

TEST_F(ResidencyMachineTest, IdsAreNeverReused) {
  std::set<StorageId> given{id_};
  std::vector<Action> actions;
  for (int i = 0; i < 1000; ++i) {
    const StorageId id = machine_.create(Bytes{1});
    EXPECT_TRUE(given.insert(id).second);
    machine_.on({EventKind::kDie, id}, 0, actions);
    EXPECT_FALSE(machine_.contains(id));
    EXPECT_THROW(machine_.on({EventKind::kUse, id}, 0, actions), InternalError);
  }
  EXPECT_EQ(machine_.live(), 1U);
}

TEST_F(ResidencyMachineTest, CountsBytesAndTime) {
  bring_to_host();  // the copy takes one tick of 10 ns
  use();
  completed();
  evict(Tier::kHost);
  const Statistics& seen = machine_.statistics();
  EXPECT_EQ(seen.evictions, 1U);
  EXPECT_EQ(seen.evicted, kSize);
  EXPECT_EQ(seen.clean_evictions, 1U);
  EXPECT_EQ(seen.clean_evicted, kSize);
  EXPECT_EQ(seen.fetches, 1U);
  EXPECT_EQ(seen.fetched, kSize);
  EXPECT_EQ(seen.copying_ns, 20);
  EXPECT_EQ(seen.peak, (std::array<Bytes, kTierCount>{kSize, kSize, Bytes{0}}));
}

}  // namespace
}  // namespace spillway::residency
