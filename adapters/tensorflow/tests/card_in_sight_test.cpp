// SPDX-License-Identifier: Apache-2.0
#include "card_in_sight.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway::tf {
namespace {

TEST(CardInSightTest, IsWhereADriverIsAndTheProgramMaySeeIt) {
  const auto root =
      std::filesystem::temp_directory_path() / ("card_in_sight_test." + std::to_string(::getpid()));
  std::filesystem::create_directories(root / "dev");
  EXPECT_FALSE(card_in_sight(nullptr, root)) << "there is no driver";
  for (const char* const driver : {"nvidiactl", "dxg", "kfd"}) {
    SCOPED_TRACE(driver);
    std::ofstream(root / "dev" / driver).flush();
    EXPECT_TRUE(card_in_sight(nullptr, root));
    EXPECT_TRUE(card_in_sight("0", root));
    EXPECT_TRUE(card_in_sight("GPU-8932f937", root));
    EXPECT_FALSE(card_in_sight("", root));
    EXPECT_FALSE(card_in_sight("-1", root));
    std::filesystem::remove(root / "dev" / driver);
  }
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace spillway::tf
