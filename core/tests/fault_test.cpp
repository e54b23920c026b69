// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/fault.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

class FaultTest : public testing::Test {
 public:
  ~FaultTest() override { arm_faults(""); }

 protected:
  /// One letter for each of `calls` calls: `.` nothing, `e` error, `s` short, `d` delay, `*` more.
  static std::string act(std::string_view point, int calls) {
    std::string acts;
    for (int i = 0; i < calls; ++i) {
      const auto fault = fault_at(point);
      if (!fault) {
        acts += '.';
      } else if ((fault->error != 0) + fault->short_io + (fault->delay_us != 0) != 1) {
        acts += '*';
      } else {
        acts += fault->error != 0 ? 'e' : fault->short_io ? 's' : 'd';
      }
    }
    return acts;
  }
};

TEST_F(FaultTest, NothingHappensUnarmed) { EXPECT_EQ(act("spool.write", 3), "..."); }

TEST_F(FaultTest, HappensAtTheNamedCallOnly) {
  arm_faults("spool.write=EIO@3, spool.read=short@1,spool.grow=ENOSPC@2+");
  EXPECT_EQ(act("spool.write", 5), "..e..");
  EXPECT_EQ(act("spool.read", 3), "s..");
  EXPECT_EQ(act("spool.grow", 4), ".eee");
  EXPECT_EQ(act("spool.open", 3), "...");
  EXPECT_EQ(act("spool", 3), "...");
}

TEST_F(FaultTest, CarriesWhatIsAskedFor) {
  arm_faults("spool.write=ENOSPC@1+, transfer.delay=delay:500us@1, arena.map=delay:7@1");
  EXPECT_EQ(fault_at("spool.write")->error, ENOSPC);
  EXPECT_EQ(fault_at("transfer.delay")->delay_us, 500);
  EXPECT_EQ(fault_at("arena.map")->delay_us, 7);
  arm_faults("a=delay:3ms@1, b=delay:2s@1");
  EXPECT_EQ(fault_at("a")->delay_us, 3'000);
  EXPECT_EQ(fault_at("b")->delay_us, 2'000'000);
}

TEST_F(FaultTest, TwoFaultsOfOnePointShareItsCount) {
  arm_faults("p=EIO@2, p=short@4, p=delay:5us@4+");
  EXPECT_EQ(act("p", 5), ".e.*d");
}

TEST_F(FaultTest, ArmingStartsAnew) {
  arm_faults("p=EIO@2");
  EXPECT_EQ(act("p", 1), ".");
  arm_faults("p=EIO@2");
  EXPECT_EQ(act("p", 2), ".e");
  arm_faults("");
  EXPECT_EQ(act("p", 3), "...");
}

TEST_F(FaultTest, MalformedTextArmsNothingAndIsShown) {
  arm_faults("p=EIO@1+");
  for (const char* text : {"p",
                           "p=EIO",
                           "p@1",
                           "=EIO@1",
                           "p=@1",
                           "p=EIO@",
                           "p=EIO@0",
                           "p=EIO@-1",
                           "p=EIO@1++",
                           "p=EIO@1 2",
                           "p=EIO@x",
                           "p=EIO@99999999999999999999",
                           "p=delay@1",
                           "p=delay:@1",
                           "p=delay:-1us@1",
                           "p=delay:5h@1",
                           "p=delay:9223372036854775807s@1",
                           "p=5@1",
                           "spool write=EIO@1",
                           "q=EIO@1, p"}) {
    EXPECT_THROW(arm_faults(text), UserError) << text;
    EXPECT_EQ(act("p", 1), "e") << "the former faults stay armed after " << text;
  }
  try {
    arm_faults("p=EOI@1");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("p=EOI@1"));
    EXPECT_THAT(error.what(), testing::HasSubstr("Did you mean \"EIO\"?"));
  }
}

// thread 0   call call call ...
// thread 1    call call call ...     each call gets a number of its own: exactly one is the 1000th
// main       arm "q"  arm "q" ...    and re-arming in between neither crashes nor arms "p"
TEST_F(FaultTest, ThreadsShareTheCount) {
  arm_faults("p=EIO@1000");
  std::atomic<int> faults{0};
  std::vector<std::thread> threads(4);
  for (std::thread& thread : threads) {
    thread = std::thread([&faults] {
      for (int call = 0; call < 500; ++call) faults += fault_at("p") ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 1);

  threads.clear();
  std::atomic<bool> stop{false};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop) faults += fault_at("p") ? 1 : 0;
    });
  }
  for (int i = 0; i < 200; ++i) arm_faults(i % 2 == 0 ? "q=EIO@1+" : "");
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 1);
}

}  // namespace
}  // namespace spillway
