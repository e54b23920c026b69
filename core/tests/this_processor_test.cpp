// SPDX-License-Identifier: Apache-2.0
#include "spillway/machine/this_processor.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

namespace spillway {
namespace {

TEST(ThisProcessorTest, IsNamedByItsMaker) {
  EXPECT_EQ(processor_name("processor\t: 0\nmodel name\t: Fast 9000\nflags\t: fma\n"), "Fast 9000");
  EXPECT_EQ(processor_name("model name\t: Fast"), "Fast");
  EXPECT_EQ(processor_name("processor\t: 0\n"), "processor");
  EXPECT_EQ(processor_name("model name"), "processor");
  EXPECT_EQ(processor_name(""), "processor");
}

TEST(ThisProcessorTest, CountsThoseThatMayBeUsed) {
  unsigned one = 0;
  std::thread pinned([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof set, &set), 0);
    one = usable_processors();
  });
  pinned.join();
  EXPECT_EQ(one, 1U);
  EXPECT_EQ(processor_text("Fast 9000", 1), "Fast 9000, 1 processor");
  EXPECT_EQ(processor_text("Fast 9000", 8), "Fast 9000, 8 processors");
  const std::string count = std::to_string(usable_processors());
  EXPECT_NE(this_processor().find(", " + count + " processor"), std::string::npos);
}

}  // namespace
}  // namespace spillway
