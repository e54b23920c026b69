// SPDX-License-Identifier: Apache-2.0
// The promises of every DeviceDriver, for whatever stands behind it: a typed suite that each
// implementation instantiates with
//
//   struct Card {
//     static std::unique_ptr<DeviceDriver> open();
//   };
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::runtime {

template <typename Card>
class DeviceDriverConformanceTest : public ::testing::Test {
 protected:
  static constexpr int kHostGranules = 4;

  void SetUp() override {
    granule_ = {driver_->facts().granule};
    ASSERT_GT(granule_.count, 0U);
    ASSERT_TRUE(driver_->reserve(granule_ * 16, granule_.count, base_).done());
    ASSERT_TRUE(driver_->create_stream(stream_).done());
    void* const memory = mmap(nullptr, granule_.count * kHostGranules, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    host_ = static_cast<std::byte*>(memory);
    ASSERT_TRUE(driver_->register_host(host_, granule_ * kHostGranules).done());
  }
  void TearDown() override {
    ASSERT_TRUE(driver_->synchronize().done());
    EXPECT_TRUE(driver_->unregister_host(host_).done());
    munmap(host_, granule_.count * kHostGranules);
    EXPECT_TRUE(driver_->destroy_stream(stream_).done());
    for (const auto& [address, handle] : opened_) {
      EXPECT_TRUE(driver_->unmap(address, granule_).done());
      EXPECT_TRUE(driver_->release(handle).done());
    }
    EXPECT_TRUE(driver_->free_reservation(base_, granule_ * 16).done());
  }

  DeviceAddress granule(std::uint64_t index) const { return base_ + granule_ * index; }
  /// A granule with memory behind it.
  DeviceAddress open(std::uint64_t index) {
    PagesHandle handle{};
    EXPECT_TRUE(driver_->create(granule_, handle).done());
    EXPECT_TRUE(driver_->map(granule(index), granule_, handle).done());
    EXPECT_TRUE(driver_->allow_access(granule(index), granule_).done());
    opened_.emplace_back(granule(index), handle);
    return granule(index);
  }
  std::byte* host(int index) { return host_ + granule_.count * static_cast<std::uint64_t>(index); }
  bool all(const std::byte* memory, int value) const {
    return std::all_of(memory, memory + granule_.count,
                       [=](std::byte b) { return b == std::byte(value); });
  }
  DeviceEvent event(EventTiming timing = EventTiming::kNo) {
    DeviceEvent made{};
    EXPECT_TRUE(driver_->create_event(timing, made).done());
    return made;
  }

  std::unique_ptr<DeviceDriver> driver_ = Card::open();
  Bytes granule_{};
  DeviceAddress base_{};
  DeviceStream stream_{};
  std::byte* host_ = nullptr;
  std::vector<std::pair<DeviceAddress, PagesHandle>> opened_;
};

TYPED_TEST_SUITE_P(DeviceDriverConformanceTest);

TYPED_TEST_P(DeviceDriverConformanceTest, BytesGoInAndWithinAndOut) {
  const DeviceAddress first = this->open(0);
  const DeviceAddress second = this->open(3);
  std::memset(this->host(0), 7, this->granule_.count);
  auto& driver = *this->driver_;
  EXPECT_TRUE(driver.copy_in(first, this->host(0), this->granule_, this->stream_).done());
  EXPECT_TRUE(driver.copy_within(second, first, this->granule_, this->stream_).done());
  EXPECT_TRUE(driver.copy_out(this->host(1), second, this->granule_, this->stream_).done());
  EXPECT_TRUE(driver.fill(second, std::byte{9}, this->granule_, this->stream_).done());
  EXPECT_TRUE(driver.copy_out(this->host(2), second, this->granule_, this->stream_).done());
  ASSERT_TRUE(driver.synchronize_stream(this->stream_).done());
  EXPECT_TRUE(this->all(this->host(1), 7));
  EXPECT_TRUE(this->all(this->host(2), 9));
}

TYPED_TEST_P(DeviceDriverConformanceTest, AHandleTakesItsBytesToOtherAddresses) {
  const DeviceAddress first = this->open(0);
  auto& driver = *this->driver_;
  ASSERT_TRUE(driver.fill(first, std::byte{5}, this->granule_, this->stream_).done());
  ASSERT_TRUE(driver.synchronize_stream(this->stream_).done());
  const PagesHandle handle = this->opened_.back().second;
  ASSERT_TRUE(driver.unmap(first, this->granule_).done());
  ASSERT_TRUE(driver.map(this->granule(5), this->granule_, handle).done());
  ASSERT_TRUE(driver.allow_access(this->granule(5), this->granule_).done());
  this->opened_.back().first = this->granule(5);
  ASSERT_TRUE(
      driver.copy_out(this->host(0), this->granule(5), this->granule_, this->stream_).done());
  ASSERT_TRUE(driver.synchronize_stream(this->stream_).done());
  EXPECT_TRUE(this->all(this->host(0), 5));
}

TYPED_TEST_P(DeviceDriverConformanceTest, MemoryIsCountedFromCreationToTheLastOfMappingAndHandle) {
  auto& driver = *this->driver_;
  const auto free = [&] {
    DeviceMemoryInfo info;
    EXPECT_TRUE(driver.memory_info(info).done());
    return info.free;
  };
  const Bytes before = free();
  PagesHandle handle{};
  ASSERT_TRUE(driver.create(this->granule_, handle).done());
  EXPECT_EQ(free(), before - this->granule_);
  ASSERT_TRUE(driver.map(this->granule(0), this->granule_, handle).done());
  ASSERT_TRUE(driver.release(handle).done());
  EXPECT_EQ(free(), before - this->granule_) << "still mapped";
  ASSERT_TRUE(driver.unmap(this->granule(0), this->granule_).done());
  EXPECT_EQ(free(), before);
}

TYPED_TEST_P(DeviceDriverConformanceTest, AWaitIsForTheLatestRecordAndForNothingWithoutOne) {
  auto& driver = *this->driver_;
  DeviceStream other{};
  ASSERT_TRUE(driver.create_stream(other).done());
  const DeviceEvent mark = this->event();
  EXPECT_TRUE(driver.query(mark).done()) << "never recorded";
  EXPECT_TRUE(driver.stream_wait(other, mark).done());
  const DeviceAddress address = this->open(0);
  for (int round = 1; round <= 20; ++round) {
    const auto value = std::byte(round);
    ASSERT_TRUE(driver.fill(address, value, this->granule_, this->stream_).done());
    ASSERT_TRUE(driver.record(mark, this->stream_).done());
    ASSERT_TRUE(driver.stream_wait(other, mark).done());
    ASSERT_TRUE(driver.copy_out(this->host(0), address, this->granule_, other).done());
    ASSERT_TRUE(driver.synchronize_stream(other).done());
    ASSERT_TRUE(this->all(this->host(0), round));
    EXPECT_TRUE(driver.query(mark).done());
  }
  EXPECT_TRUE(driver.destroy_event(mark).done());
  EXPECT_TRUE(driver.destroy_stream(other).done());
}

TYPED_TEST_P(DeviceDriverConformanceTest, TheHostSeesAnEventPass) {
  auto& driver = *this->driver_;
  const DeviceEvent begin = this->event(EventTiming::kYes);
  const DeviceEvent end = this->event(EventTiming::kYes);
  const DeviceAddress address = this->open(0);
  ASSERT_TRUE(driver.record(begin, this->stream_).done());
  ASSERT_TRUE(driver.fill(address, std::byte{1}, this->granule_, this->stream_).done());
  ASSERT_TRUE(driver.record(end, this->stream_).done());
  ASSERT_TRUE(driver.synchronize_event(end).done());
  EXPECT_TRUE(driver.query(end).done());
  EXPECT_TRUE(driver.query(begin).done());
  TimeNs duration = -1;
  EXPECT_TRUE(driver.elapsed(begin, end, duration).done());
  EXPECT_GE(duration, 0);
  EXPECT_TRUE(driver.destroy_event(begin).done());
  EXPECT_TRUE(driver.destroy_event(end).done());
}

TYPED_TEST_P(DeviceDriverConformanceTest, WhatIsAskedWronglyIsRefusedAndLosesNothing) {
  auto& driver = *this->driver_;
  PagesHandle handle{};
  const auto refused = [](DeviceStatus status) {
    return status.outcome == DeviceOutcome::kRefused && status.code != 0;
  };
  EXPECT_TRUE(refused(driver.create(this->granule_ + Bytes{1}, handle)));
  EXPECT_TRUE(refused(driver.unmap(this->granule(0), this->granule_)));
  EXPECT_TRUE(refused(driver.allow_access(this->granule(0), this->granule_)));
  const DeviceAddress address = this->open(0);
  EXPECT_TRUE(refused(driver.map(address, this->granule_, this->opened_.back().second)));
  EXPECT_TRUE(refused(driver.register_host(this->host_, this->granule_)));
  EXPECT_FALSE(driver.text(driver.unmap(this->granule(1), this->granule_)).empty());
  EXPECT_TRUE(driver.fill(address, std::byte{1}, this->granule_, this->stream_).done());
}

TYPED_TEST_P(DeviceDriverConformanceTest, ACardThatIsFullSaysSo) {
  DeviceMemoryInfo info;
  ASSERT_TRUE(this->driver_->memory_info(info).done());
  PagesHandle handle{};
  const DeviceStatus status = this->driver_->create(info.total + this->granule_, handle);
  EXPECT_EQ(status.outcome, DeviceOutcome::kOutOfMemory);
}

REGISTER_TYPED_TEST_SUITE_P(DeviceDriverConformanceTest, BytesGoInAndWithinAndOut,
                            AHandleTakesItsBytesToOtherAddresses,
                            MemoryIsCountedFromCreationToTheLastOfMappingAndHandle,
                            AWaitIsForTheLatestRecordAndForNothingWithoutOne,
                            TheHostSeesAnEventPass, WhatIsAskedWronglyIsRefusedAndLosesNothing,
                            ACardThatIsFullSaysSo);

}  // namespace spillway::runtime
