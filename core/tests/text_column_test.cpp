// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/text_column.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace spillway {
namespace {

TEST(TextColumnTest, StoresEachTextOnce) {
  TextColumn column;
  for (const char* text : {"mm", "add", "mm", "", "mm"}) column.push_back(text);
  EXPECT_EQ(column.size(), 5U);
  EXPECT_EQ(column.distinct(), 3U);
  EXPECT_EQ(column[0], "mm");
  EXPECT_EQ(column[3], "");
  EXPECT_EQ(column.id(0), column.id(4));
  column.assign(4, "add");
  EXPECT_EQ(column[4], "add");
  EXPECT_EQ(column.id(4), column.id(1));
  EXPECT_EQ(column.distinct(), 3U);
}

TEST(TextColumnTest, EqualityIsOfTextsAndNotOfIds) {
  TextColumn a;
  TextColumn b;
  b.push_back("zero");
  b.assign(0, "one");  // "one" has id 1 here and 0 there
  a.push_back("one");
  EXPECT_EQ(a, b);
  b.push_back("zero");
  EXPECT_NE(a, b);
  a.push_back("nought");
  EXPECT_NE(a, b);
}

TEST(TextColumnTest, ManyTextsAreFoundAgain) {
  TextColumn column;
  std::vector<std::string> texts;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    texts.push_back("op" + std::to_string(random() % 5'000));
    column.push_back(texts.back());
  }
  EXPECT_LE(column.distinct(), 5'000U);
  for (std::size_t i = 0; i < texts.size(); ++i) ASSERT_EQ(column[i], texts[i]);
  const TextColumn copy = column;
  EXPECT_EQ(copy, column);
}

}  // namespace
}  // namespace spillway
