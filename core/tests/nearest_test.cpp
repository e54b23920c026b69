// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/nearest.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace spillway {
namespace {

std::string nearest(std::string_view word, std::vector<std::string_view> candidates) {
  return std::string(nearest_word(word, candidates).value_or("-"));
}

TEST(NearestWordTest, CountsEachKindOfSlipOnce) {
  // Three letters allow one slip.
  EXPECT_EQ(nearest("abc", {"abc"}), "abc");
  EXPECT_EQ(nearest("ab", {"abc"}), "abc") << "left out";
  EXPECT_EQ(nearest("abxc", {"abc"}), "abc") << "put in";
  EXPECT_EQ(nearest("axc", {"abc"}), "abc") << "replaced";
  EXPECT_EQ(nearest("acb", {"abc"}), "abc") << "swapped";
  EXPECT_EQ(nearest("axx", {"abc"}), "-") << "two slips";
  EXPECT_EQ(nearest("bca", {"abc"}), "-") << "a letter moved by two is no neighbour's swap";
}

TEST(NearestWordTest, AllowsAThirdOfTheLongerWord) {
  EXPECT_EQ(nearest("xxcdef", {"abcdef"}), "abcdef");
  EXPECT_EQ(nearest("xxxdef", {"abcdef"}), "-");
  EXPECT_EQ(nearest("xxxdefg", {"abcdefg"}), "abcdefg") << "7 / 3, rounded up";
}

TEST(NearestWordTest, PrefersTheNearestThenTheFirst) {
  EXPECT_EQ(nearest("buget", {"bucket", "budget", "gadget"}), "budget");
  EXPECT_EQ(nearest("bat", {"cat", "hat"}), "cat");
}

TEST(NearestWordTest, CopesWithNothing) {
  EXPECT_EQ(nearest("abc", {}), "-");
  EXPECT_EQ(nearest("", {"abc"}), "-");
  EXPECT_EQ(nearest("", {"a"}), "a") << "one slip of one letter";
  EXPECT_EQ(nearest("abc", {""}), "-");
}

TEST(NearestWordTest, IsSymmetric) {
  const std::vector<std::string_view> words{"enforce", "enfroce", "record", "recrod", "verify",
                                            "off",     "fuzz",    "fzuz",   "of"};
  for (const std::string_view a : words) {
    for (const std::string_view b : words) {
      EXPECT_EQ(nearest_word(a, std::array{b}).has_value(),
                nearest_word(b, std::array{a}).has_value())
          << a << ' ' << b;
    }
  }
}

TEST(NearestWordTest, ASuggestionFollowsASentence) {
  constexpr std::array<std::string_view, 2> kWords{"host", "disk"};
  EXPECT_EQ(suggestion("dsik", kWords), " Did you mean \"disk\"?");
  EXPECT_EQ(suggestion("tape", kWords), "");
}

}  // namespace
}  // namespace spillway
