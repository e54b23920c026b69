// SPDX-License-Identifier: Apache-2.0
// A graphics card that is none: streams are queues that threads work off (StreamQueues), memory is
// shared pages that the processor cannot touch at the device's addresses (CardMemory), and the
// machine's own may be page-locked (LockedHost).
//
// It proves order and accounts, not time: that what is not waited for really comes late, that what
// is unmapped is gone, that what was freed belongs to others. What a driver would answer with an
// error, or a card with a broken context, is an error here; what a driver lets pass although it is
// always a fault is written down as a complaint, and loses the device:
//
//   - unmapping what enqueued work still uses
//   - ending the page-locking of memory that an enqueued copy uses
//   - work at an address where nothing is mapped
//
// Stream 0 is a stream like the others. Contents of host memory are read and written when the copy
// is done, page-locked or not; copies of other memory hold the caller up, as a driver's do.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/testing/device/card_memory.hpp"
#include "spillway/testing/device/locked_host.hpp"
#include "spillway/testing/device/stream_queues.hpp"

namespace spillway::testing {

struct ThreadDeviceOptions {
  Bytes memory = kMiB * 64;
  std::uint64_t granule = 4096;
  Bytes addresses = kGiB;
  Bytes lockable = kGiB;  ///< host memory that may be page-locked
  Pace pace = Pace::kThreads;
  std::uint64_t seed = 1;
  unsigned longest_delay_us = 200;  ///< before a task, for Pace::kThreads
  std::string account{};            ///< file of a card that processes share (CardAccount)
};

/// What can be made to fail.
enum class DeviceCall : std::uint8_t {
  kMemoryInfo,
  kSynchronize,
  kReserve,
  kFreeReservation,
  kCreate,
  kMap,
  kAllowAccess,
  kUnmap,
  kRelease,
  kRegisterHost,
  kUnregisterHost,
  kCreateStream,
  kDestroyStream,
  kStreamWait,
  kCreateEvent,
  kDestroyEvent,
  kRecord,
  kQuery,
  kElapsed,
  kCopyOut,
  kCopyIn,
  kCopyWithin,
  kFill,
  kCount,
};

/// What a kernel is given: a pointer for each access, in the same order.
using DeviceKernel = std::function<void(std::span<std::byte* const>)>;

class ThreadDevice : public runtime::DeviceDriver {
 public:
  using Status = runtime::DeviceStatus;
  using Address = runtime::DeviceAddress;
  using Handle = runtime::PagesHandle;
  using Stream = runtime::DeviceStream;
  using Event = runtime::DeviceEvent;

  explicit ThreadDevice(const ThreadDeviceOptions& options = {});

  // Beyond what a driver has.

  /// Enqueues a kernel that reads and writes `accesses` alone.
  virtual Status launch(Stream stream, std::vector<DeviceAccess> accesses, DeviceKernel kernel);
  /// The `nth` (from 1) such call from now on, and with `and_later` all after it, ends with
  /// `status` and does nothing.
  void fail(DeviceCall call, unsigned nth, Status status, bool and_later = false);
  /// From now on everything fails, and work that is enqueued is not done. `why` is a complaint.
  void lose(std::string why = {});
  /// Whether all work of a stream is done: kNotReady if it is not.
  virtual Status query_stream(Stream stream);
  [[nodiscard]] bool is_device(Address address) const { return memory_.holds(address); }
  /// Lets other cards reach it, as allow_access does after allow_peer.
  Status share(Address address, Bytes bytes);
  /// Whether they may.
  [[nodiscard]] bool is_shared(Address address, Bytes bytes);
  [[nodiscard]] bool is_page_locked(const std::byte* memory);
  /// Where work of the card reads and writes what programs know as `address`.
  [[nodiscard]] std::byte* shadow(Address address) const { return memory_.shadow(address); }
  [[nodiscard]] std::vector<std::string> complaints();
  [[nodiscard]] Bytes used();
  /// The most that was ever used.
  [[nodiscard]] Bytes peak();
  /// Copies that held the caller up.
  [[nodiscard]] std::uint64_t pageable_copies();

  static constexpr Status kOutOfMemory{runtime::DeviceOutcome::kOutOfMemory, 2};
  static constexpr Status kInvalid{runtime::DeviceOutcome::kRefused, 1};
  static constexpr Status kNotPermitted{runtime::DeviceOutcome::kRefused, 800};
  static constexpr Status kNotReady{runtime::DeviceOutcome::kNotYet, 600};
  static constexpr Status kLost{runtime::DeviceOutcome::kLost, 700};

  [[nodiscard]] const runtime::DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::string text(Status status) const override;
  Status memory_info(runtime::DeviceMemoryInfo& info) override;
  Status enter_thread() override;
  Status synchronize() override;
  Status reserve(Bytes bytes, std::uint64_t alignment, Address& address) override;
  Status free_reservation(Address address, Bytes bytes) override;
  Status create(Bytes bytes, Handle& handle) override;
  Status map(Address address, Bytes bytes, Handle handle) override;
  Status allow_access(Address address, Bytes bytes) override;
  Status allow_peer(int ordinal) override;
  void forget_peer(int ordinal) override;
  Status unmap(Address address, Bytes bytes) override;
  Status release(Handle handle) override;
  Status register_host(std::byte* memory, Bytes bytes) override;
  Status unregister_host(std::byte* memory) override;
  Status create_stream(Stream& stream) override;
  Status destroy_stream(Stream stream) override;
  Status stream_wait(Stream stream, Event event) override;
  Status synchronize_stream(Stream stream) override;
  [[nodiscard]] bool is_capturing(Stream) override { return false; }  ///< see CaptureDevice
  Status create_event(runtime::EventTiming timing, Event& event) override;
  Status destroy_event(Event event) override;
  Status record(Event event, Stream stream) override;
  Status query(Event event) override;
  Status synchronize_event(Event event) override;
  Status elapsed(Event from, Event to, TimeNs& duration) override;
  Status copy_out(std::byte* to, Address from, Bytes bytes, Stream stream) override;
  Status copy_in(Address to, const std::byte* from, Bytes bytes, Stream stream) override;
  Status copy_within(Address to, Address from, Bytes bytes, Stream stream) override;
  Status fill(Address address, std::byte value, Bytes bytes, Stream stream) override;

 private:
  struct Failure {
    unsigned after = 0;
    Status status;
    bool and_later = false;
  };
  struct EventState {
    runtime::EventTiming timing;
    std::shared_ptr<StreamMark> latest;  // null: never recorded
  };

  /// Begins a call: lets time pass, and says how the call ends if it is to fail.
  Status enter(DeviceCall call);
  static Status asked(bool rightly) { return rightly ? Status{} : kInvalid; }
  bool admit(const StreamTask& task);
  void complain(std::string what);
  /// Enqueues what touches device memory; waits for it where `host` is not page-locked.
  Status enqueue(StreamQueues::Lock& lock, Stream stream, StreamTask task,
                 const HostRange* host = nullptr);
  Status await(StreamQueues::Lock& lock, const std::shared_ptr<StreamMark>& mark);

  runtime::DeviceFacts facts_;
  CardMemory memory_;
  LockedHost locked_;
  std::array<Failure, static_cast<std::size_t>(DeviceCall::kCount)> failures_{};
  std::map<std::uintptr_t, EventState> events_;
  std::uintptr_t last_event_ = 0;
  std::vector<std::string> complaints_;
  std::uint64_t pageable_copies_ = 0;
  bool has_peer_ = false;
  bool lost_ = false;
  StreamQueues queues_;  // last: its threads use what is above
};

}  // namespace spillway::testing
