// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/output_path.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

std::string refusal(const std::string& path) {
  try {
    require_writable(path, "--stats");
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

class OutputPathTest : public testing::Test {
 protected:
  OutputPathTest() : folder_(testing::TempDir() + "output_path/") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  std::string folder_;
};

TEST_F(OutputPathTest, LeavesNothingBehind) {
  EXPECT_EQ(refusal(folder_ + "stats.json"), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(OutputPathTest, TouchesNoFileThatIsThere) {
  std::ofstream(folder_ + "stats.json") << "kept";
  EXPECT_EQ(refusal(folder_ + "stats.json"), "");
  EXPECT_EQ(std::filesystem::file_size(folder_ + "stats.json"), 4U);
}

TEST_F(OutputPathTest, SaysWhatIsWrong) {
  EXPECT_EQ(refusal(folder_ + "none/stats.json"),
            "--stats: " + folder_ + "none/stats.json cannot be written: there is no directory " +
                folder_ + "none. Name another file.");
  EXPECT_NE(refusal(folder_).find("it is a directory"), std::string::npos);
  std::ofstream(folder_ + "file") << "";
  EXPECT_NE(refusal(folder_ + "file/stats.json"), "");
}

// There even root makes no file, whatever the permissions say.
TEST_F(OutputPathTest, AsksTheFileSystemAndNotThePermissions) {
  EXPECT_NE(refusal("/proc/stats.json"), "");
  EXPECT_NE(new_file_error("/proc"), 0);
  EXPECT_EQ(new_file_error(folder_), 0);
  EXPECT_EQ(new_file_error(folder_ + "none"), ENOENT);
}

TEST_F(OutputPathTest, TakesDevices) { EXPECT_EQ(refusal("/dev/null"), ""); }

}  // namespace
}  // namespace spillway
