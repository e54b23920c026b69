// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "device_driver_conformance.hpp"
#include "spillway/runtime/device/cuda_driver.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::runtime {
namespace {

struct Threads {
  static std::unique_ptr<DeviceDriver> open() {
    return std::make_unique<spillway::testing::ThreadDevice>();
  }
};

struct ByCalls {
  static std::unique_ptr<DeviceDriver> open() {
    return std::make_unique<spillway::testing::ThreadDevice>(
        spillway::testing::ThreadDeviceOptions{.pace = spillway::testing::Pace::kByCalls});
  }
};

/// The driver that ships, over a libcuda that is none: what it asks for, and how.
struct CudaOnStandIn {
  static std::unique_ptr<DeviceDriver> open() {
    return std::make_unique<CudaDriver>(std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(OnThreads, DeviceDriverConformanceTest, Threads);
INSTANTIATE_TYPED_TEST_SUITE_P(ByCalls, DeviceDriverConformanceTest, ByCalls);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaOnStandIn, DeviceDriverConformanceTest, CudaOnStandIn);

}  // namespace
}  // namespace spillway::runtime
