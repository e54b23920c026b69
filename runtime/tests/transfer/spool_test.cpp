// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/spool.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "in_child.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"

namespace spillway::runtime {
namespace {

using testing::HasSubstr;

class SpoolTest : public testing::Test {
 public:
  SpoolTest() {
    std::string path = testing::TempDir() + "/spool-test-XXXXXX";
    directory_ = ::mkdtemp(path.data());
  }
  ~SpoolTest() override {
    arm_faults("");
    std::filesystem::remove_all(directory_);
  }

 protected:
  [[nodiscard]] SpoolOptions options(Bytes budget = kGiB) {
    return {.directory = directory_, .budget = budget, .warn = [this](std::string text) {
              warnings_.push_back(std::move(text));
            }};
  }
  [[nodiscard]] bool directory_is_empty() const { return std::filesystem::is_empty(directory_); }
  void expect_private_and_nameless(const Spool& spool) {
    struct stat status {};
    ASSERT_EQ(::fstat(spool.descriptor(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode_t{0600});
    EXPECT_EQ(status.st_nlink, nlink_t{0});
    EXPECT_TRUE(directory_is_empty());
  }
  [[nodiscard]] std::string open_error() {
    Spool spool(options());
    try {
      spool.ensure_open();
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  }

  std::string directory_;
  std::vector<std::string> warnings_;
};

std::uint64_t file_bytes(const Spool& spool) {
  struct stat status {};
  EXPECT_EQ(::fstat(spool.descriptor(), &status), 0);
  return static_cast<std::uint64_t>(status.st_size);
}

/// Closes what is left of it. The read end usually goes to the spool.
struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
  ~Pipe() { std::ranges::for_each(ends, close_end); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int release_read() { return std::exchange(ends[0], -1); }
  void close_write() { close_end(ends[1]); }

  static void close_end(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

TEST_F(SpoolTest, OpensNothingBeforeTheFirstExtent) {
  Spool spool({directory_ + "/missing", kGiB, {}});
  EXPECT_EQ(spool.descriptor(), -1);
  EXPECT_EQ(spool.usage().capacity, Bytes{0});
  EXPECT_THROW(spool.allocate(kMiB), UserError);
  std::filesystem::create_directory(directory_ + "/missing");
  EXPECT_TRUE(spool.allocate(kMiB)) << "a failed open can be tried again";
}

TEST_F(SpoolTest, HasWhatAnotherFileLeavesOfTheBudget) {
  for (const Bytes budget : {kMiB * 8, Bytes{}}) {
    Bytes other = budget.count == 0 ? kMiB * 5 : Bytes{};
    SpoolOptions given = options(budget);
    given.beside = [&other] { return other; };
    Spool spool(given);
    // Of a budget that free space settles, the other file had its part already.
    const auto first = spool.allocate(kMiB * 2);
    ASSERT_TRUE(first);
    other += budget.count == 0 ? spool.usage().budget : kMiB * 5;
    EXPECT_FALSE(spool.allocate(kMiB * 2));
    EXPECT_THAT(spool.full_reason(), ::testing::HasSubstr("disk budget is spent"));
    other = budget.count == 0 ? kMiB * 5 : kMiB;
    EXPECT_TRUE(spool.allocate(kMiB * 2));
  }
}

TEST_F(SpoolTest, WhatIsTrimmedIsGivenBackAndTakenAgain) {
  Spool spool(options(kMiB * 64));
  const auto first = spool.allocate(kMiB);
  const auto last = spool.allocate(kMiB * 2);
  ASSERT_TRUE(first && last);
  spool.free(*last);
  EXPECT_TRUE(spool.trim());
  EXPECT_FALSE(spool.trim()) << "it has nothing more";
  EXPECT_EQ(spool.usage().capacity, kMiB);
  EXPECT_TRUE(spool.allocate(kMiB * 3));
  EXPECT_GE(spool.usage().capacity, kMiB * 4);
}

TEST_F(SpoolTest, FileIsPrivateNamelessAndReserved) {
  Spool spool(options());
  const auto extent = spool.allocate(kMiB);
  ASSERT_TRUE(extent.has_value());
  EXPECT_EQ(extent->bytes, kMiB.count);
  struct stat status {};
  ASSERT_EQ(::fstat(spool.descriptor(), &status), 0);
  expect_private_and_nameless(spool);
  EXPECT_EQ(file_bytes(spool), spool.usage().capacity.count);
  EXPECT_GE(static_cast<std::uint64_t>(status.st_blocks) * 512, spool.usage().capacity.count);
  EXPECT_NE(::fcntl(spool.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  const std::string self = "/proc/self/fd/" + std::to_string(spool.descriptor());
  EXPECT_NE(
      ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, (directory_ + "/name").c_str(), AT_SYMLINK_FOLLOW),
      0)
      << "it can never be given a name";
}

TEST_F(SpoolTest, DirectIoFlagAgreesWithTheDescriptor) {
  Spool spool(options());
  spool.ensure_open();
  const bool set = (::fcntl(spool.descriptor(), F_GETFL) & O_DIRECT) != 0;
  EXPECT_EQ(spool.direct_io(), set);
  EXPECT_EQ(warnings_.empty(), set) << "buffered I/O is worth one warning, direct I/O none";
}

// The first open is the one with O_TMPFILE.
TEST_F(SpoolTest, WithoutTmpfileTheNameIsGoneAtOnce) {
  arm_faults("spool.open=EOPNOTSUPP@1");
  Spool spool(options());
  ASSERT_TRUE(spool.allocate(kMiB).has_value());
  expect_private_and_nameless(spool);
}

TEST_F(SpoolTest, OpenErrorsNameTheDirectoryTheCauseAndTheSetting) {
  arm_faults("spool.open=EROFS@1, spool.open=EACCES@2");
  EXPECT_THAT(open_error(), HasSubstr("read-only"));
  EXPECT_THAT(open_error(), HasSubstr("no permission"));
  arm_faults("spool.open=EMFILE@1");
  const std::string text = open_error();
  EXPECT_THAT(text, HasSubstr("Too many open files"));
  EXPECT_THAT(text, HasSubstr(directory_));
  EXPECT_THAT(text, HasSubstr("SPILLWAY_SPOOL_DIR"));
}

TEST_F(SpoolTest, MissingDirectoryAndFileInItsPlace) {
  const std::string good = directory_;
  directory_ = good + "/missing";
  EXPECT_THAT(open_error(), HasSubstr("does not exist"));
  std::ofstream(good + "/file") << "x";
  directory_ = good + "/file";
  EXPECT_THAT(open_error(), HasSubstr("not a directory"));
  directory_ = good;
}

TEST_F(SpoolTest, GrowsInStepsThatDouble) {
  Spool spool(options());
  ASSERT_TRUE(spool.allocate(kMiB));
  EXPECT_EQ(spool.usage().capacity, kMiB * 64);
  ASSERT_TRUE(spool.allocate(kMiB * 63));
  EXPECT_EQ(spool.usage().capacity, kMiB * 64) << "room ahead of need is used first";
  ASSERT_TRUE(spool.allocate({1}));
  EXPECT_EQ(spool.usage().capacity, kMiB * 192);
}

TEST_F(SpoolTest, NeverGrowsPastTheBudget) {
  Spool spool(options(kMiB * 10 + Bytes{100}));
  const auto a = spool.allocate(kMiB * 6);
  ASSERT_TRUE(a);
  EXPECT_EQ(spool.usage().capacity, kMiB * 10)
      << "the step is cut to the budget, whole granules only";
  EXPECT_EQ(spool.full_reason(), "");
  EXPECT_FALSE(spool.allocate(kMiB * 5));
  const std::string reason = spool.full_reason();
  EXPECT_THAT(reason, HasSubstr("need 5 MiB"));
  EXPECT_THAT(reason, HasSubstr("have 4 MiB"));
  EXPECT_THAT(reason, HasSubstr("short 1 MiB"));
  EXPECT_THAT(reason, HasSubstr("SPILLWAY_DISK_BUDGET"));
  EXPECT_TRUE(spool.allocate(kMiB * 4)) << "what fits is still given";
  EXPECT_FALSE(spool.allocate({1}));
  spool.free(*a);
  EXPECT_EQ(spool.allocate(kMiB * 6), a);
  EXPECT_FALSE(spool.allocate({~std::uint64_t{0}})) << "no overflow";
  EXPECT_LE(file_bytes(spool), spool.usage().budget.count);
}

TEST_F(SpoolTest, SharersDivideTheDefaultBudget) {
  SpoolOptions shared = options(Bytes{0});
  shared.sharers = 4;
  Spool alone(options(Bytes{0}));
  Spool one_of_four(shared);
  alone.ensure_open();
  one_of_four.ensure_open();
  const auto whole = static_cast<double>(alone.usage().budget.count);
  // Others write to the disk meanwhile.
  EXPECT_NEAR(static_cast<double>(one_of_four.usage().budget.count), whole / 4, whole / 20);
}

TEST_F(SpoolTest, DefaultBudgetLeavesAReserve) {
  Spool spool(options(Bytes{0}));
  spool.ensure_open();
  const auto space = std::filesystem::space(directory_);
  EXPECT_LT(spool.usage().budget.count, space.available);
  if (space.available > 2 * kGiB.count) {
    EXPECT_GT(spool.usage().budget.count, space.available / 3);
  }
}

TEST_F(SpoolTest, DiskFullAtTheFirstGrowth) {
  arm_faults("spool.grow=ENOSPC@1+");
  Spool spool(options());
  EXPECT_FALSE(spool.allocate(kMiB));
  EXPECT_THAT(spool.full_reason(), HasSubstr("No space left"));
  EXPECT_THAT(spool.full_reason(), HasSubstr("need 1 MiB"));
  EXPECT_THAT(spool.full_reason(), HasSubstr(directory_));
  EXPECT_EQ(spool.usage().used, Bytes{0});
  arm_faults("");
  EXPECT_TRUE(spool.allocate(kMiB)) << "space may come back";
}

TEST_F(SpoolTest, NoRoomAheadOfNeedButRoomForTheNeed) {
  arm_faults("spool.grow=ENOSPC@1");
  Spool spool(options());
  EXPECT_TRUE(spool.allocate(kMiB));
  EXPECT_EQ(spool.usage().capacity, kMiB);
}

TEST_F(SpoolTest, DiskFullLaterLeavesWhatWasThere) {
  Spool spool(options());
  const auto a = spool.allocate(kMiB * 60);
  ASSERT_TRUE(a);
  arm_faults("spool.grow=ENOSPC@1+");
  EXPECT_FALSE(spool.allocate(kMiB * 8));
  EXPECT_EQ(spool.usage().used, kMiB * 60);
  EXPECT_TRUE(spool.allocate(kMiB * 4)) << "within the reserved 64 MiB";
  spool.free(*a);
  EXPECT_TRUE(spool.allocate(kMiB * 8)) << "in the hole";
}

TEST_F(SpoolTest, WithoutFallocateTheFileStillGrowsAndSaysSoOnce) {
  arm_faults("spool.grow=EOPNOTSUPP@1");
  Spool spool(options());
  ASSERT_TRUE(spool.allocate(kMiB));
  ASSERT_TRUE(spool.allocate(kMiB * 100));
  EXPECT_THAT(warnings_, testing::Contains(HasSubstr("cannot reserve space")).Times(1));
  EXPECT_EQ(file_bytes(spool), spool.usage().capacity.count);
}

TEST_F(SpoolTest, FreeTakesOnlyWhatAllocateGave) {
  Spool spool(options());
  const auto a = spool.allocate(kMiB);
  ASSERT_TRUE(a);
  EXPECT_THROW(spool.free({a->offset, a->bytes / 2}), InternalError);
  EXPECT_THROW(spool.free({a->offset + 4096, a->bytes - 4096}), InternalError);
  spool.free(*a);
  EXPECT_THROW(spool.free(*a), InternalError);
  EXPECT_THROW(spool.allocate({0}), InternalError);
}

// parent  alloc a ── fork 1 ── free a ── alloc b(≠a) ── child 1 ends ── alloc c(=a)
// child 1              └──────── may read a ──────────────┘
TEST_F(SpoolTest, ExtentsLiveAtAForkAreNotReusedWhileAChildLives) {
  Spool spool(options());
  Pipe pipe;
  const auto a = spool.allocate(kMiB);
  const auto keeper = spool.allocate(kMiB);
  ASSERT_TRUE(a && keeper);
  spool.begin_fork_generation(pipe.release_read());
  spool.free(*a);
  EXPECT_EQ(spool.usage().quarantined, kMiB);
  EXPECT_EQ(spool.usage().used, kMiB);
  EXPECT_NE(spool.allocate(kMiB), a);
  pipe.close_write();
  EXPECT_EQ(spool.allocate(kMiB), a);
  EXPECT_EQ(spool.usage().quarantined, Bytes{0});
}

TEST_F(SpoolTest, ExtentsBornAfterTheForkAreReusedAtOnce) {
  Spool spool(options());
  Pipe pipe;
  spool.begin_fork_generation(pipe.release_read());
  const auto a = spool.allocate(kMiB);
  ASSERT_TRUE(a);
  spool.free(*a);
  EXPECT_EQ(spool.usage().quarantined, Bytes{0});
  EXPECT_EQ(spool.allocate(kMiB), a);
}

// alloc a ── fork 1 ── alloc b ── fork 2 ── free a, b ── child 1 ends ──────── child 2 ends
//                                            a: 1 and 2 may read it, b: only 2
TEST_F(SpoolTest, GenerationsMayEndInAnyOrder) {
  for (const bool first_ends_first : {true, false}) {
    Spool spool(options());
    Pipe one;
    Pipe two;
    const auto a = spool.allocate(kMiB);
    spool.begin_fork_generation(one.release_read());
    const auto b = spool.allocate(kMiB * 2);
    spool.begin_fork_generation(two.release_read());
    ASSERT_TRUE(a && b);
    spool.free(*a);
    spool.free(*b);
    EXPECT_EQ(spool.usage().quarantined, kMiB * 3);
    (first_ends_first ? one : two).close_write();
    EXPECT_TRUE(spool.allocate({4096}));
    EXPECT_EQ(spool.usage().quarantined, first_ends_first ? kMiB * 3 : kMiB)
        << "first_ends_first " << first_ends_first;
    (first_ends_first ? two : one).close_write();
    EXPECT_TRUE(spool.allocate({4096}));
    EXPECT_EQ(spool.usage().quarantined, Bytes{0});
  }
}

// Freed before the second fork, so only the first child can read it.
TEST_F(SpoolTest, AGenerationAfterTheFreeDoesNotHoldTheExtent) {
  Spool spool(options());
  Pipe one;
  Pipe two;
  const auto a = spool.allocate(kMiB);
  ASSERT_TRUE(a);
  spool.begin_fork_generation(one.release_read());
  spool.free(*a);
  spool.begin_fork_generation(two.release_read());
  one.close_write();
  EXPECT_EQ(spool.allocate(kMiB), a);
}

TEST_F(SpoolTest, QuarantineCountsAgainstTheBudgetAndSaysSo) {
  Spool spool(options(kMiB * 4));
  Pipe pipe;
  const auto a = spool.allocate(kMiB * 4);
  ASSERT_TRUE(a);
  spool.begin_fork_generation(pipe.release_read());
  spool.free(*a);
  EXPECT_FALSE(spool.allocate(kMiB));
  EXPECT_THAT(spool.full_reason(), HasSubstr("4 MiB kept for forked processes"));
  pipe.close_write();
  EXPECT_TRUE(spool.allocate(kMiB));
}

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((i * 131 + i / 4096 + seed) & 0xff);
  }
  return data;
}

/// Moves all of `data` on this thread; false on an error.
bool move(Direction direction, std::vector<std::byte>& data, Extent extent, const Spool& spool) {
  TransferPool pool;
  return pool.run_here({direction, data.data(), extent, spool.descriptor(), data.size()}).error ==
         0;
}

// parent  write a ── fork ── free a, write b ── "go" ─────────────── wait
// child                └──────────────────────────┴ read a: old bytes ┘
TEST_F(SpoolTest, AForkedChildReadsWhatTheParentHasFreedSince) {
  Spool spool(options());
  auto old_bytes = pattern(kMiB.count, 1);
  auto new_bytes = pattern(kMiB.count, 2);
  const auto a = spool.allocate(kMiB);
  ASSERT_TRUE(a);
  ASSERT_TRUE(move(Direction::kOut, old_bytes, *a, spool));
  Pipe liveness;
  Pipe go;
  spool.begin_fork_generation(liveness.release_read());
  const pid_t child = ::fork();
  if (child == 0) {
    char signal = 0;
    if (::read(go.ends[0], &signal, 1) != 1) {
      ::_exit(2);
    }
    std::vector<std::byte> seen(kMiB.count);
    const bool same = move(Direction::kIn, seen, *a, spool) && seen == old_bytes;
    ::_exit(same ? 0 : 1);
  }
  liveness.close_write();
  spool.free(*a);
  const auto b = spool.allocate(kMiB);
  ASSERT_TRUE(b);
  ASSERT_TRUE(move(Direction::kOut, new_bytes, *b, spool));
  ASSERT_EQ(::write(go.ends[1], "g", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(spool.allocate(kMiB), a) << "the child has ended";
}

// child   open, write ── "ready" ── pause ── SIGKILL
// parent                     └ directory is empty ┘ └ still empty
TEST_F(SpoolTest, AKilledProcessLeavesNothingBehind) {
  for (const char* faults : {"", "spool.open=EOPNOTSUPP@1"}) {
    Pipe ready;
    const pid_t child = ::fork();
    if (child == 0) {
      arm_faults(faults);
      Spool spool({directory_, kGiB, {}});
      const auto extent = spool.allocate(kMiB * 8);
      auto data = pattern(kMiB.count * 8, 3);
      const bool good = extent && move(Direction::kOut, data, *extent, spool);
      static_cast<void>(::write(ready.ends[1], good ? "y" : "n", 1) == 1);
      ::pause();
      ::_exit(0);
    }
    char answer = 0;
    ASSERT_EQ(::read(ready.ends[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
    EXPECT_TRUE(directory_is_empty());
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(directory_is_empty());
  }
}

TEST_F(SpoolTest, FileSizeLimitHoldsTheBudgetInsteadOfKillingTheProcess) {
  const int status = in_child([this] {
    const rlimit limit{kMiB.count * 3, kMiB.count * 3};
    Spool spool(options());
    const bool held =
        ::setrlimit(RLIMIT_FSIZE, &limit) == 0 && spool.allocate(kMiB * 3) && !spool.allocate({1});
    return held && spool.usage().budget == kMiB * 3 && !warnings_.empty() ? 0 : 1;
  });
  EXPECT_EQ(status, 0) << "SIGXFSZ would be " << 128 + SIGXFSZ;
}

/// Fills the spool and uses what it gave; 0, or the number of the expectation that failed.
int use_until_full(Spool& spool) {
  auto data = pattern(kMiB.count, 7);
  std::vector<Extent> extents;
  while (const auto extent = spool.allocate(kMiB)) {
    if (extents.size() > 16 || !move(Direction::kOut, data, *extent, spool)) {
      return 1;  // what is given can be written
    }
    extents.push_back(*extent);
  }
  if (extents.size() < 15 || spool.full_reason().find("No space left") == std::string::npos) {
    return 2;
  }
  for (const Extent& extent : extents) {
    std::vector<std::byte> seen(data.size());
    if (!move(Direction::kIn, seen, extent, spool) || seen != data) {
      return 3;
    }
  }
  spool.free(extents[4]);
  return spool.allocate(kMiB) == extents[4] ? 0 : 4;
}

// A tmpfs of 16 MiB, mounted where only a child sees it.
TEST_F(SpoolTest, RealFullDisk) {
  constexpr int kSkipped = 77;
  const int status = in_child([this] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=16m") != 0) {
      return kSkipped;
    }
    Spool spool(options());
    return use_until_full(spool);
  });
  if (status == kSkipped) {
    GTEST_SKIP() << "cannot mount a small file system here: needs root's right to mount";
  }
  EXPECT_EQ(status, 0);
}

TEST_F(SpoolTest, WarnsOnceWhenTheDirectoryLiesInMemory) {
  struct statfs file_system {};
  if (::statfs("/dev/shm", &file_system) != 0 || file_system.f_type != 0x01021994 ||
      ::access("/dev/shm", W_OK) != 0) {
    GTEST_SKIP() << "no writable tmpfs at /dev/shm";
  }
  Spool spool({"/dev/shm", kMiB * 4, options().warn});
  EXPECT_TRUE(spool.allocate(kMiB));
  EXPECT_TRUE(spool.allocate(kMiB));
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("lies in memory"));
  EXPECT_THAT(warnings_[0], HasSubstr("SPILLWAY_SPOOL_DIR"));
}

TEST_F(SpoolTest, DefaultDirectoryPrefersTmpdirIfItIsUsable) {
  const int status = in_child([this] {
    ::setenv("TMPDIR", directory_.c_str(), 1);
    const bool preferred = default_spool_directory() == directory_;
    ::setenv("TMPDIR", (directory_ + "/missing").c_str(), 1);
    const std::string other = default_spool_directory();
    return preferred && !other.empty() && other != directory_ + "/missing" ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace spillway::runtime
