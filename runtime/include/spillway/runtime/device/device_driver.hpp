// SPDX-License-Identifier: Apache-2.0
// What is asked of a card's driver, in types of our own: no header of a vendor is needed to see it.
//
//   addresses   reserve |------------------------------------|    for life, without memory
//   memory      create [handle]  [handle]                          counted by the card
//   both        map + allow_access: the handle's memory is behind the addresses
//
//   stream      work in the order it was enqueued, beside that of other streams
//   event       a mark in a stream: `record` enqueues it, it has passed when all before it is done
//
// Enqueuing calls (record, stream_wait, copies, fill) return before the work is done. stream_wait
// waits for the latest record of the event at the time of the call, and for nothing if the event
// was never recorded. unmap waits for no work: who unmaps what enqueued work still uses loses the
// device.
//
// Errors: every call tells its outcome; nothing is thrown. kLost stays: every later call has it
// too. `expect_done` makes an exception of what nobody can go on after.
// Thread-safe. A thread of ours calls enter_thread before anything else; in any other the first
// call makes the device current, unless one is already. Bytes and addresses of virtual memory are
// multiples of facts().granule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"
#include "spillway/base/error.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::runtime {

/// An address of the device's; the processor cannot read or write there.
enum class DeviceAddress : std::uint64_t {};
/// Physical memory of the device, without an address.
enum class PagesHandle : std::uint64_t {};
/// A queue of work. A framework's own may be given here too; 0 is the default stream.
enum class DeviceStream : std::uintptr_t {};
enum class DeviceEvent : std::uintptr_t {};

constexpr std::uint64_t to_value(DeviceAddress address) {
  return static_cast<std::uint64_t>(address);
}
/// Of a block, whose addresses the processor cannot follow.
inline DeviceAddress device_address(const void* pointer) {
  return DeviceAddress{reinterpret_cast<std::uint64_t>(pointer)};
}
constexpr DeviceAddress operator+(DeviceAddress address, Bytes bytes) {
  return DeviceAddress{to_value(address) + bytes.count};
}

enum class DeviceOutcome : std::uint8_t {
  kDone,
  kNotYet,       ///< query: the event has not passed
  kOutOfMemory,  ///< of the device, or of what may be page-locked
  kRefused,      ///< this call alone: not supported, not permitted, or asked wrongly
  kLost,         ///< the device cannot be used any more in this process
};

struct [[nodiscard]] DeviceStatus {
  DeviceOutcome outcome = DeviceOutcome::kDone;
  int code = 0;  ///< the driver's own number

  [[nodiscard]] bool done() const { return outcome == DeviceOutcome::kDone; }
  bool operator==(const DeviceStatus&) const = default;
};

/// What does not change while the process lives.
struct DeviceFacts {
  std::string name;
  int driver_version = 0;  ///< as the driver tells it, e.g. 13000 for 13.0
  Bytes memory{};
  std::uint64_t granule = 0;  ///< of virtual memory; 0: the device has none that can be mapped
};

struct DeviceMemoryInfo {
  Bytes free{};
  Bytes total{};
};

enum class EventTiming : bool { kNo, kYes };

class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  DeviceDriver(const DeviceDriver&) = delete;
  DeviceDriver& operator=(const DeviceDriver&) = delete;

  [[nodiscard]] virtual const DeviceFacts& facts() const = 0;
  /// An outcome in words, with the driver's name and number of it.
  [[nodiscard]] virtual std::string text(DeviceStatus status) const = 0;
  /// As the driver counts, all processes together.
  virtual DeviceStatus memory_info(DeviceMemoryInfo& info) = 0;
  /// Makes the device current in a thread of ours, whose calls then disturb no capture of a graph
  /// that another thread makes.
  virtual DeviceStatus enter_thread() = 0;
  /// Waits until all work of all streams is done.
  virtual DeviceStatus synchronize() = 0;

  virtual DeviceStatus reserve(Bytes bytes, std::uint64_t alignment, DeviceAddress& address) = 0;
  /// A reservation as it was made, with nothing mapped in it.
  virtual DeviceStatus free_reservation(DeviceAddress address, Bytes bytes) = 0;
  virtual DeviceStatus create(Bytes bytes, PagesHandle& handle) = 0;
  /// Puts a whole handle behind addresses that have none.
  virtual DeviceStatus map(DeviceAddress address, Bytes bytes, PagesHandle handle) = 0;
  /// Work may read and write there from now on.
  virtual DeviceStatus allow_access(DeviceAddress address, Bytes bytes) = 0;
  /// Work of another card, by its number in the process, may do so wherever `allow_access` is
  /// called from now on.
  virtual DeviceStatus allow_peer(int ordinal) = 0;
  virtual void forget_peer(int ordinal) = 0;
  /// Takes whole handles away.
  virtual DeviceStatus unmap(DeviceAddress address, Bytes bytes) = 0;
  /// The memory is the card's again as soon as it is mapped nowhere.
  virtual DeviceStatus release(PagesHandle handle) = 0;

  /// Page-locks memory of the process; addresses and bytes are whole pages. Copies to and from
  /// other memory work too, but hold the caller up.
  virtual DeviceStatus register_host(std::byte* memory, Bytes bytes) = 0;
  virtual DeviceStatus unregister_host(std::byte* memory) = 0;

  /// A stream that the default stream does not wait for, nor the other way round. Its kernels go
  /// before those of others that have not begun.
  virtual DeviceStatus create_stream(DeviceStream& stream) = 0;
  /// What is enqueued is still done.
  virtual DeviceStatus destroy_stream(DeviceStream stream) = 0;
  /// Later work of the stream starts after the event.
  virtual DeviceStatus stream_wait(DeviceStream stream, DeviceEvent event) = 0;
  virtual DeviceStatus synchronize_stream(DeviceStream stream) = 0;
  /// Whether its work is captured for a graph, and done at no time of its own. Nothing may be
  /// awaited there then, nor an event recorded for others. False, too, where the driver refuses.
  [[nodiscard]] virtual bool is_capturing(DeviceStream stream) = 0;

  virtual DeviceStatus create_event(EventTiming timing, DeviceEvent& event) = 0;
  virtual DeviceStatus destroy_event(DeviceEvent event) = 0;
  virtual DeviceStatus record(DeviceEvent event, DeviceStream stream) = 0;
  /// kDone or kNotYet; kDone if the event was never recorded.
  virtual DeviceStatus query(DeviceEvent event) = 0;
  virtual DeviceStatus synchronize_event(DeviceEvent event) = 0;
  /// Between two events with timing that have both passed.
  virtual DeviceStatus elapsed(DeviceEvent from, DeviceEvent to, TimeNs& duration) = 0;

  /// May be made in pieces, between which others have the engine that copies, while the device runs
  /// a kernel of one byte. Where it is refused, nothing of it is under way.
  virtual DeviceStatus copy_out(std::byte* to, DeviceAddress from, Bytes bytes,
                                DeviceStream stream) = 0;
  virtual DeviceStatus copy_in(DeviceAddress to, const std::byte* from, Bytes bytes,
                               DeviceStream stream) = 0;
  virtual DeviceStatus copy_within(DeviceAddress to, DeviceAddress from, Bytes bytes,
                                   DeviceStream stream) = 0;
  virtual DeviceStatus fill(DeviceAddress address, std::byte value, Bytes bytes,
                            DeviceStream stream) = 0;

 protected:
  DeviceDriver() = default;
};

/// The device failed where nothing can go on: the text says at what, and what the driver said.
class DeviceFailure : public UserError {
 public:
  using UserError::UserError;
};

/// Throws DeviceFailure unless the call was done. `doing` completes "The device failed while".
void expect_done(const DeviceDriver& driver, DeviceStatus status, std::string_view doing);

}  // namespace spillway::runtime
