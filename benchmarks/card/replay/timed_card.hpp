// SPDX-License-Identifier: Apache-2.0
// A stand-in card whose work and calls last as long as a real one's, each `stretch` times as long,
// so that a processor's sleeps are short beside them.
//
//     kernels    one after the other within a stream, as long as they are told to last
//     copies     bytes / rate of their direction, one after the other within it; both directions
//                share the link, which is less than twice as fast as one
//     calls      create, map, allow_access, unmap and release hold the caller up; the program's
//                thread is the one that called `begin_account`
//
// No byte moves: contents are not this tool's question. What is timed is written down, and `busy`
// tells how it lies beside each other. Times without the word stretched are a real card's.
// Thread-safe.
#pragma once

#include <array>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "spillway/runtime/device/fair_mutex.hpp"
#include "spillway/testing/device/forwarding_driver.hpp"
#include "spillway/testing/device/thread_device.hpp"

namespace spillway::replay {

/// Those of an H100 (SXM, driver 580): rates by copies of 256 MiB; calls as a training process
/// spent them, each with a clock around it (GPT-2 medium at half of its peak). `spillway_card_gate`
/// finds less, as its loop has everything in the processor's caches. Tables of pages are written by
/// a copy engine, which copies out of the card keep busy.
struct CardTimes {
  double stretch = 20;
  double one_way = 55e9;    ///< bytes per second while the other direction rests
  double both_ways = 47e9;  ///< of each direction while both are busy
  TimeNs create = 27'000;
  TimeNs map = 5'000;
  TimeNs allow_access = 60'000;
  TimeNs allow_access_beside_out = 100'000;  ///< which make pauses (CudaDriver); else 330 to 900 us
  TimeNs unmap = 45'000;
  TimeNs release = 20'000;           ///< of a handle,
  double release_of_byte = 0.52e-3;  ///< and of each of its bytes: 15 us for 8 MiB, 80 for 128

  [[nodiscard]] TimeNs stretched(double time) const { return static_cast<TimeNs>(time * stretch); }
};

/// What was busy since `begin_account`, in stretched nanoseconds.
struct Busy {
  TimeNs kernels = 0;
  TimeNs out = 0;
  TimeNs in = 0;
  TimeNs copies_beside_kernels = 0;  ///< kernels ran, and a copy in either direction
  TimeNs both_ways = 0;              ///< copies ran in both directions
  TimeNs awaited = 0;           ///< a kernel was launched and did not start: it waited for a copy
  TimeNs nothing_launched = 0;  ///< every kernel that was launched had ended
  TimeNs calls = 0;             ///< that map memory, unmap it, and so on, of the program's thread
  TimeNs calls_beside = 0;      ///< likewise, of other threads
};

class TimedCard final : public testing::ForwardingDriver {
 public:
  TimedCard(testing::ThreadDevice& device, const CardTimes& times)
      : ForwardingDriver(device), device_(device), times_(times) {}

  /// Enqueues a kernel of that duration that uses the memory.
  Status launch(Stream stream, std::vector<testing::DeviceAccess> accesses, TimeNs duration);

  Status create(Bytes bytes, Handle& handle) override;
  Status map(Address address, Bytes bytes, Handle handle) override;
  Status allow_access(Address address, Bytes bytes) override;
  Status unmap(Address address, Bytes bytes) override;
  Status release(Handle handle) override;
  Status copy_out(std::byte* to, Address from, Bytes bytes, Stream stream) override;
  Status copy_in(Address to, const std::byte* from, Bytes bytes, Stream stream) override;

  void begin_account();
  [[nodiscard]] Busy busy();

 private:
  enum Kind : std::size_t { kKernel, kOut, kIn, kKinds };
  struct Interval {
    TimeNs launched;
    TimeNs begin;
    TimeNs end;
  };

  void hold_caller(TimeNs time);
  Status copy(Kind kind, Address device, Bytes bytes, Stream stream);
  TimeNs begin_work(Kind kind, std::size_t place, TimeNs launched);
  void end_work(Kind kind, std::size_t place, const Interval& interval);

  testing::ThreadDevice& device_;
  const CardTimes times_;
  runtime::FairMutex mapping_;  // a driver makes one of these calls after the other
  std::mutex mutex_;
  std::array<std::vector<Interval>, kKinds> done_;
  std::array<int, kKinds> running_{};
  std::array<std::map<std::size_t, TimeNs>, kKinds> free_at_;  // by stream, or direction
  std::map<Handle, Bytes> handles_;
  std::thread::id programs_;
  TimeNs calls_ = 0;  // of that thread
  TimeNs calls_beside_ = 0;
};

}  // namespace spillway::replay
