// SPDX-License-Identifier: Apache-2.0
// A ThreadDevice whose streams can be captured as graphs, as CUDA's can, and which is as strict:
//
//   begin_capture(a)    what is issued in `a` is kept, and not done
//   record(event, a)    the event is the capture's
//   stream_wait(b, it)  so is stream b from now on, until the capture ends
//   end_capture(a)      the graph, or the error that spoiled it
//   replay(graph, s)    all of it in stream s, in the order in which it was issued
//
// Spoiled, as by CUDA's rules (cudaStreamBeginCapture, cudaThreadExchangeStreamCaptureMode): by a
// wait of a captured stream for anything outside, and by questions and waits of the host. For what
// is captured, and for all that the card does, those spoil it at any time; for anything else while
// the mode of the asking thread and that of the capture forbid it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "spillway/testing/device/thread_device.hpp"

namespace spillway::testing {

/// The numbers are CUDA's.
enum class CaptureMode : std::uint8_t {
  kGlobal = 0,       ///< spoiled by whoever asks, of threads in this mode
  kThreadLocal = 1,  ///< by the capturing thread alone
  kRelaxed = 2,      ///< by nobody
};
enum class CaptureStatus : std::uint8_t { kNone = 0, kActive = 1, kSpoiled = 2 };

/// What may be done again in any stream.
using StreamWork = std::function<runtime::DeviceStatus(runtime::DeviceStream)>;
using CapturedGraph = std::vector<StreamWork>;

class CaptureDevice final : public ThreadDevice {
 public:
  using ThreadDevice::ThreadDevice;

  static constexpr Status kUnsupported{runtime::DeviceOutcome::kRefused, 900};
  static constexpr Status kSpoiled{runtime::DeviceOutcome::kRefused, 901};
  static constexpr Status kUnmatched{runtime::DeviceOutcome::kRefused, 903};
  static constexpr Status kUnjoined{runtime::DeviceOutcome::kRefused, 904};
  static constexpr Status kIsolation{runtime::DeviceOutcome::kRefused, 905};
  static constexpr Status kCapturedEvent{runtime::DeviceOutcome::kRefused, 907};

  /// That of the calling thread.
  static CaptureMode& thread_mode();

  Status begin_capture(Stream stream, CaptureMode mode);
  Status end_capture(Stream stream, CapturedGraph& graph);
  struct Info {
    CaptureStatus status = CaptureStatus::kNone;
    std::uint64_t id = 0;
  };
  [[nodiscard]] Info capture_of(Stream stream);
  Status replay(const CapturedGraph& graph, Stream stream);
  /// Of a call that CUDA calls unsafe beside captures, such as cudaMalloc: whether it may be made.
  Status unsafe_call();

  Status launch(Stream stream, std::vector<DeviceAccess> accesses, DeviceKernel kernel) override;
  Status query_stream(Stream stream) override;
  Status synchronize() override;
  Status synchronize_stream(Stream stream) override;
  [[nodiscard]] bool is_capturing(Stream stream) override {
    return capture_of(stream).status != CaptureStatus::kNone;
  }
  Status stream_wait(Stream stream, Event event) override;
  Status record(Event event, Stream stream) override;
  Status query(Event event) override;
  Status synchronize_event(Event event) override;
  Status elapsed(Event from, Event to, TimeNs& duration) override;
  Status register_host(std::byte* memory, Bytes bytes) override;
  Status unregister_host(std::byte* memory) override;
  Status copy_out(std::byte* to, Address from, Bytes bytes, Stream stream) override;
  Status copy_in(Address to, const std::byte* from, Bytes bytes, Stream stream) override;
  Status copy_within(Address to, Address from, Bytes bytes, Stream stream) override;
  Status fill(Address address, std::byte value, Bytes bytes, Stream stream) override;

 private:
  struct Capture {
    std::uint64_t id = 0;
    Stream origin{};
    CaptureMode mode{};
    std::thread::id thread;
    bool is_spoiled = false;
    struct Member {
      std::size_t issued = 0;   ///< works of the graph, up to its last one
      std::size_t awaited = 0;  ///< of these, what another stream waited for
    };
    std::map<Stream, Member> members;  ///< the origin among them
    CapturedGraph graph;
  };
  struct Recorded {
    std::uint64_t capture = 0;
    Stream stream{};
    std::size_t works = 0;  ///< of the graph, before it
  };

  Status issue(Stream stream, StreamWork work);
  Status ask(Stream stream);
  Status ask(Event event);
  // With the lock held.
  Capture* of(Stream stream);
  Status spoiled(Capture& capture, Status status);
  Status unsafe_call_locked();

  std::mutex mutex_;
  std::atomic<int> ongoing_{0};
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, Capture> captures_;
  std::map<Stream, std::uint64_t> streams_;
  std::map<Event, Recorded> events_;  ///< whose last record was captured
};

}  // namespace spillway::testing
