// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/name_hash.hpp"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// The values that the authors of FNV publish: those of no bytes, "a" and "foobar".
TEST(NameHashTest, IsFnv1aOf64Bits) {
  EXPECT_EQ(hash_of_name(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_of_name("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_of_name("foobar"), 0x85944171f73967e8U);
}

TEST(NameHashTest, OfTwoPartsIsThatOfTheWhole) {
  EXPECT_EQ(hash_of_name("bar", hash_of_name("foo")), hash_of_name("foobar"));
}

// A byte above 127 is no negative number.
TEST(NameHashTest, TakesBytesAsTheyAre) {
  EXPECT_EQ(hash_of_name("\xff"), (0xcbf29ce484222325U ^ 0xffU) * 0x100000001b3U);
}

}  // namespace
}  // namespace spillway
