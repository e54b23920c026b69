// SPDX-License-Identifier: Apache-2.0
// What is said where there is no card to use. SPILLWAY_STAND_IN_CUDA is the path of the stand-in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/device/cuda_driver.hpp"
#include "spillway/runtime/device/cuda_library.hpp"
#include "spillway/testing/device/stand_in_card.hpp"

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

TEST(CudaLibraryTest, SaysThatItIsMissingAndWhatToDo) {
  EXPECT_THAT(
      refusal("libcuda-that-nobody-has.so.1"),
      AllOf(HasSubstr("no driver for a graphics card"), HasSubstr("libcuda-that-nobody-has.so.1"),
            HasSubstr("Install NVIDIA's driver")));
}

TEST(CudaLibraryTest, SaysThatADriverIsTooOld) {
  EXPECT_THAT(refusal("libm.so.6"), AllOf(HasSubstr("libm.so.6"), HasSubstr("older than CUDA 11.3"),
                                          HasSubstr("Update NVIDIA's driver")));
}

TEST(CudaLibraryTest, SaysThatThereIsNoCard) {
  setenv("STAND_IN_CUDA", "no-device", 1);
  const std::string said = refusal(SPILLWAY_STAND_IN_CUDA);
  unsetenv("STAND_IN_CUDA");
  EXPECT_THAT(said, AllOf(HasSubstr("does not start"), HasSubstr("CUDA_ERROR_NO_DEVICE (100)"),
                          HasSubstr("SPILLWAY_BUDGET=cpu:8GiB")));
}

TEST(CudaLibraryTest, TellsWhetherACardIsSeen) {
  EXPECT_TRUE(a_card_is_seen(SPILLWAY_STAND_IN_CUDA));
  EXPECT_FALSE(a_card_is_seen("libcuda-that-nobody-has.so.1"));
  EXPECT_FALSE(a_card_is_seen("libm.so.6"));
  setenv("STAND_IN_CUDA", "no-device", 1);
  EXPECT_FALSE(a_card_is_seen(SPILLWAY_STAND_IN_CUDA));
  unsetenv("STAND_IN_CUDA");
}

TEST(CudaLibraryTest, SaysOfACardWhetherItsMemoryCanBeMapped) {
  const CudaLibrary library(SPILLWAY_STAND_IN_CUDA);
  EXPECT_EQ(library.card(0).name, "stand-in card");
  EXPECT_TRUE(library.card(0).maps_memory);
  setenv("STAND_IN_CUDA", "no-mapping", 1);
  const CudaCard other = library.card(0);
  unsetenv("STAND_IN_CUDA");
  EXPECT_EQ(other.name, "stand-in card");
  EXPECT_FALSE(other.maps_memory);
}

TEST(CudaLibraryTest, SaysWhichFunctionIsMissing) {
  const CudaLibrary library(SPILLWAY_STAND_IN_CUDA);
  try {
    static_cast<void>(library.function("cuFunctionOfTomorrow"));
    FAIL() << "it is not there";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("cuFunctionOfTomorrow"), HasSubstr("CUDA 11.2")));
  }
}

TEST(CudaDriverTest, RefusesACardThatIsNotThere) {
  const auto library = std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA);
  for (const int ordinal : {-1, 1}) {
    EXPECT_THROW(CudaDriver(library, ordinal), UserError) << ordinal;
  }
}

TEST(CudaDriverTest, TellsWhatTheCardIs) {
  CudaDriver driver(std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0);
  EXPECT_EQ(driver.facts().name, "stand-in card");
  EXPECT_EQ(driver.facts().driver_version, 13000);
  EXPECT_EQ(driver.facts().memory, kGiB);
  EXPECT_EQ(driver.facts().granule, (kMiB * 2).count);
  EXPECT_TRUE(driver.enter_thread().done());
}

TEST(CudaDriverTest, GivesBackAllThatItTook) {
  const auto library = std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA);
  CudaDriver driver(library, 0);
  DeviceMemoryInfo before;
  DeviceMemoryInfo after;
  ASSERT_TRUE(driver.memory_info(before).done());
  { const CudaDriver other(library, 0); }
  ASSERT_TRUE(driver.memory_info(after).done());
  EXPECT_EQ(after.free, before.free);
}

/// A stream, and addresses of which the first so many bytes have pages.
class CudaCopyTest : public ::testing::Test {
 public:
  ~CudaCopyTest() override {
    EXPECT_TRUE(driver_.unmap(block_, mapped_).done());
    EXPECT_TRUE(driver_.release(pages_).done());
    EXPECT_TRUE(driver_.free_reservation(block_, kReserved).done());
    EXPECT_TRUE(driver_.destroy_stream(stream_).done());
  }

 protected:
  CudaCopyTest() {
    EXPECT_TRUE(driver_.create_stream(stream_).done());
    EXPECT_TRUE(driver_.reserve(kReserved, driver_.facts().granule, block_).done());
  }
  void map(Bytes bytes) {
    mapped_ = bytes;
    ASSERT_TRUE(driver_.create(bytes, pages_).done());
    ASSERT_TRUE(driver_.map(block_, bytes, pages_).done());
    ASSERT_TRUE(driver_.allow_access(block_, bytes).done());
  }

  static constexpr Bytes kReserved = kMiB * 20;
  CudaDriver driver_{std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0};
  DeviceStream stream_{};
  DeviceAddress block_{};
  PagesHandle pages_{};
  Bytes mapped_{};
};

TEST_F(CudaCopyTest, LargeBlocksComeOutWhole) {
  map(kReserved);
  std::vector<std::byte> there(kReserved.count);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = std::byte(i / 4096 + i);
  std::vector<std::byte> back(kReserved.count - 3);
  ASSERT_TRUE(driver_.copy_in(block_, there.data(), kReserved, stream_).done());
  ASSERT_TRUE(driver_.copy_out(back.data(), block_, {back.size()}, stream_).done());
  ASSERT_TRUE(driver_.synchronize_stream(stream_).done());
  there.resize(back.size());
  EXPECT_TRUE(there == back);
}

// The second half has no pages: nothing may be under way into memory that its owner gives away.
TEST_F(CudaCopyTest, OneThatIsRefusedHasEnded) {
  const Bytes half = kMiB * 8;
  map(half);
  for (int i = 0; i < 40; ++i) {  // it takes a while until the copy begins
    ASSERT_TRUE(driver_.fill(block_, std::byte{7}, half, stream_).done());
  }
  const Bytes both = half + half;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, both.count)), &std::free);
  std::byte* const back = memory.get();
  std::memset(back, 0, both.count);
  // Into other memory it would hold the caller up anyhow.
  ASSERT_TRUE(driver_.register_host(back, both).done());
  EXPECT_FALSE(driver_.copy_out(back, block_, both, stream_).done());
  EXPECT_EQ(back[half.count - 1], std::byte{7});
  EXPECT_TRUE(driver_.unregister_host(back).done());
}

// As of a thread of the program's whose first op allocates: nothing of CUDA's runtime, which would
// have made the context current, was called there.
TEST(CudaDriverTest, ServesAThreadThatNoContextIsCurrentIn) {
  CudaDriver driver(std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0);
  DeviceEvent event{};
  ASSERT_TRUE(driver.create_event(EventTiming::kNo, event).done());
  const auto in_new_thread = [](auto call) {
    DeviceStatus status;
    std::jthread([&status, &call] { status = call(); }).join();
    return status;
  };
  EXPECT_TRUE(in_new_thread([&] { return driver.record(event, DeviceStream{0}); }).done());
  EXPECT_TRUE(in_new_thread([&] { return driver.stream_wait(DeviceStream{0}, event); }).done());
  EXPECT_TRUE(in_new_thread([&] { return driver.synchronize_stream(DeviceStream{0}); }).done());
  EXPECT_TRUE(in_new_thread([&] { return driver.synchronize(); }).done());
  DeviceMemoryInfo info;
  EXPECT_TRUE(in_new_thread([&] { return driver.memory_info(info); }).done());
  DeviceEvent another{};
  EXPECT_TRUE(
      in_new_thread([&] { return driver.create_event(EventTiming::kYes, another); }).done());
}

// As of a program's thread that captures a graph, in which nothing may be asked otherwise.
TEST_F(CudaCopyTest, NoCallSpoilsAGraphThatTheCallingThreadCaptures) {
  const CudaLibrary library(SPILLWAY_STAND_IN_CUDA);
  using Begin = cuda::Result(cuda::Stream, int mode);
  using End = cuda::Result(cuda::Stream, void** graph);
  auto* const begin = reinterpret_cast<Begin*>(library.function("cuStreamBeginCapture"));
  auto* const end = reinterpret_cast<End*>(library.function("cuStreamEndCapture"));
  DeviceStream captured{};
  ASSERT_TRUE(driver_.create_stream(captured).done());
  auto* const handle = reinterpret_cast<cuda::Stream>(static_cast<std::uintptr_t>(captured));
  std::vector<std::byte> host(kMiB.count);
  std::jthread([&] {
    ASSERT_EQ(begin(handle, 0), cuda::kSuccess);
    map(kMiB * 2);
    DeviceEvent event{};
    DeviceEvent later{};
    EXPECT_TRUE(driver_.create_event(EventTiming::kYes, event).done());
    EXPECT_TRUE(driver_.create_event(EventTiming::kYes, later).done());
    EXPECT_TRUE(driver_.register_host(host.data(), kMiB).done());
    EXPECT_TRUE(driver_.record(event, stream_).done());
    EXPECT_TRUE(driver_.copy_in(block_, host.data(), kMiB, stream_).done());
    EXPECT_TRUE(driver_.copy_out(host.data(), block_, kMiB, stream_).done());
    EXPECT_TRUE(driver_.record(later, stream_).done());
    EXPECT_NE(driver_.query(later).outcome, DeviceOutcome::kRefused);
    EXPECT_TRUE(driver_.synchronize_event(later).done());
    TimeNs duration = 0;
    EXPECT_TRUE(driver_.elapsed(event, later, duration).done());
    EXPECT_TRUE(driver_.synchronize_stream(stream_).done());
    EXPECT_TRUE(driver_.unregister_host(host.data()).done());
    DeviceMemoryInfo info;
    EXPECT_TRUE(driver_.memory_info(info).done());
    EXPECT_TRUE(driver_.destroy_event(event).done());
    void* graph = nullptr;
    EXPECT_EQ(end(handle, &graph), cuda::kSuccess);
  }).join();
  EXPECT_TRUE(driver_.destroy_stream(captured).done());
}

// As of a thread that works on a second card, where stream 0 is another's.
TEST(CudaDriverTest, ServesAThreadInWhichAnotherCardsContextIsCurrent) {
  const auto library = std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA);
  CudaDriver driver(library, 0);
  const cuda::Functions& call = library->functions();
  auto* const other = reinterpret_cast<cuda::Context>(spillway::testing::kSecondCardsContext);
  std::vector<std::byte> host(4096);
  std::jthread([&] {
    DeviceEvent event{};
    DeviceStream stream{};
    DeviceMemoryInfo info;
    ASSERT_EQ(call.context_set(other), cuda::kSuccess);
    EXPECT_TRUE(driver.create_event(EventTiming::kNo, event).done());
    EXPECT_TRUE(driver.create_stream(stream).done());
    EXPECT_TRUE(driver.record(event, DeviceStream{0}).done());
    EXPECT_TRUE(driver.stream_wait(stream, event).done());
    EXPECT_TRUE(driver.synchronize_stream(stream).done());
    EXPECT_TRUE(driver.synchronize().done());
    EXPECT_TRUE(driver.memory_info(info).done());
    EXPECT_TRUE(driver.register_host(host.data(), {host.size()}).done());
    EXPECT_TRUE(driver.unregister_host(host.data()).done());
    EXPECT_TRUE(driver.destroy_stream(stream).done());
    EXPECT_TRUE(driver.destroy_event(event).done());
    cuda::Context current = nullptr;
    ASSERT_EQ(call.context_get(&current), cuda::kSuccess);
    EXPECT_EQ(current, other) << "the program goes on there";
  }).join();
}

TEST(CudaDriverTest, LetsAnotherCardReachItsMemory) {
  setenv("STAND_IN_CARDS", "peers", 1);
  CudaDriver driver(std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0);
  const Bytes bytes{driver.facts().granule};
  DeviceAddress address{};
  PagesHandle handle{};
  ASSERT_TRUE(driver.reserve(bytes, 0, address).done());
  ASSERT_TRUE(driver.create(bytes, handle).done());
  ASSERT_TRUE(driver.map(address, bytes, handle).done());
  EXPECT_EQ(driver.allow_peer(2).outcome, DeviceOutcome::kRefused) << "there is none";
  EXPECT_TRUE(driver.allow_access(address, bytes).done());
  EXPECT_TRUE(driver.allow_peer(1).done());
  EXPECT_TRUE(driver.allow_peer(1).done());
  EXPECT_TRUE(driver.allow_access(address, bytes).done()) << "each card once";
  setenv("STAND_IN_CARDS", "apart", 1);
  EXPECT_EQ(driver.allow_access(address, bytes).outcome, DeviceOutcome::kRefused);
  unsetenv("STAND_IN_CARDS");
  EXPECT_TRUE(driver.unmap(address, bytes).done());
  EXPECT_TRUE(driver.release(handle).done());
  EXPECT_TRUE(driver.free_reservation(address, bytes).done());
}

TEST(CudaDriverTest, TellsTheNumberAndMeaningOfAnError) {
  CudaDriver driver(std::make_shared<CudaLibrary>(SPILLWAY_STAND_IN_CUDA), 0);
  PagesHandle handle{};
  const DeviceStatus refused = driver.create(kGiB * 2, handle);
  EXPECT_EQ(refused.outcome, DeviceOutcome::kOutOfMemory);
  EXPECT_THAT(driver.text(refused), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
  try {
    expect_done(driver, refused, "creating 2 GiB");
    FAIL() << "nothing was created";
  } catch (const DeviceFailure& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("stand-in card failed while creating 2 GiB"),
                                      HasSubstr("CUDA_ERROR_OUT_OF_MEMORY")));
  }
  EXPECT_NO_THROW(expect_done(driver, {}, "nothing"));
}

}  // namespace
}  // namespace spillway::runtime
