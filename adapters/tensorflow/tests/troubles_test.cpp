// SPDX-License-Identifier: Apache-2.0
#include "troubles.hpp"

#include <gmock/gmock.h>

namespace spillway::tf {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TroublesTest : public ::testing::Test {
 protected:
  template <class Noting>
  std::string said(const Noting& noting) {
    ::testing::internal::CaptureStderr();
    noting(troubles_);
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  SwapTable table_{{.budget = kMiB, .smallest = Bytes{1}}, [] { return Bytes{}; }};
  Troubles troubles_{table_, "on the card"};
};

TEST_F(TroublesTest, SaysWhyATensorStaysOnce) {
  const std::string text = said([](Troubles& troubles) {
    troubles.note_stays("");
    troubles.note_stays("the disk is full");
    troubles.note_stays("it still is");
  });
  EXPECT_EQ(text, "spillway: a tensor that was to leave stays on the card: the disk is full\n");
}

TEST_F(TroublesTest, SaysThatCopiesAreNotSoundWhateverItSaidBefore) {
  const std::string text = said([](Troubles& troubles) {
    troubles.note_stays("host memory is full");
    troubles.note_unsound("relu has other bytes");
    troubles.note_unsound("so has add");
  });
  EXPECT_THAT(text, AllOf(HasSubstr("spillway: relu has other bytes\n"), Not(HasSubstr("add"))));
}

}  // namespace
}  // namespace spillway::tf
