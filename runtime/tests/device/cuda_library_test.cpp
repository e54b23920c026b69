// SPDX-License-Identifier: Apache-2.0
// What is said where there is no card to use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "spillway/base/error.hpp"
#include "spillway/runtime/device/cuda_library.hpp"

namespace spillway::runtime {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& file) {
  try {
    const CudaLibrary library(file);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(CudaLibrary, SaysThatItIsMissingAndWhatToDo) {
  EXPECT_THAT(
      refusal("libcuda-that-nobody-has.so.1"),
      AllOf(HasSubstr("no driver for a graphics card"), HasSubstr("libcuda-that-nobody-has.so.1"),
            HasSubstr("Install NVIDIA's driver")));
}

TEST(CudaLibrary, SaysThatADriverIsTooOld) {
  EXPECT_THAT(refusal("libm.so.6"), AllOf(HasSubstr("libm.so.6"), HasSubstr("older than CUDA 11.3"),
                                          HasSubstr("Update NVIDIA's driver")));
}

}  // namespace
}  // namespace spillway::runtime
