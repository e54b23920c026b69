// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "spillway/runtime/device/device_driver.hpp"

namespace spillway::testing {

/// A driver that does what another does: a test overrides what it wants to see or to spoil.
class ForwardingDriver : public runtime::DeviceDriver {
 public:
  using Status = runtime::DeviceStatus;
  using Address = runtime::DeviceAddress;
  using Handle = runtime::PagesHandle;
  using Stream = runtime::DeviceStream;
  using Event = runtime::DeviceEvent;

  explicit ForwardingDriver(runtime::DeviceDriver& to) : to_(to) {}

  [[nodiscard]] const runtime::DeviceFacts& facts() const override { return to_.facts(); }
  [[nodiscard]] std::string text(Status status) const override { return to_.text(status); }
  Status memory_info(runtime::DeviceMemoryInfo& info) override { return to_.memory_info(info); }
  Status enter_thread() override { return to_.enter_thread(); }
  [[nodiscard]] bool is_capturing(Stream stream) override { return to_.is_capturing(stream); }
  Status synchronize() override { return to_.synchronize(); }
  Status reserve(Bytes bytes, std::uint64_t alignment, Address& address) override {
    return to_.reserve(bytes, alignment, address);
  }
  Status free_reservation(Address address, Bytes bytes) override {
    return to_.free_reservation(address, bytes);
  }
  Status create(Bytes bytes, Handle& handle) override { return to_.create(bytes, handle); }
  Status map(Address address, Bytes bytes, Handle handle) override {
    return to_.map(address, bytes, handle);
  }
  Status allow_access(Address address, Bytes bytes) override {
    return to_.allow_access(address, bytes);
  }
  Status allow_peer(int ordinal) override { return to_.allow_peer(ordinal); }
  void forget_peer(int ordinal) override { to_.forget_peer(ordinal); }
  Status unmap(Address address, Bytes bytes) override { return to_.unmap(address, bytes); }
  Status release(Handle handle) override { return to_.release(handle); }
  Status register_host(std::byte* memory, Bytes bytes) override {
    return to_.register_host(memory, bytes);
  }
  Status unregister_host(std::byte* memory) override { return to_.unregister_host(memory); }
  Status create_stream(Stream& stream) override { return to_.create_stream(stream); }
  Status destroy_stream(Stream stream) override { return to_.destroy_stream(stream); }
  Status stream_wait(Stream stream, Event event) override { return to_.stream_wait(stream, event); }
  Status synchronize_stream(Stream stream) override { return to_.synchronize_stream(stream); }
  Status create_event(runtime::EventTiming timing, Event& event) override {
    return to_.create_event(timing, event);
  }
  Status destroy_event(Event event) override { return to_.destroy_event(event); }
  Status record(Event event, Stream stream) override { return to_.record(event, stream); }
  Status query(Event event) override { return to_.query(event); }
  Status synchronize_event(Event event) override { return to_.synchronize_event(event); }
  Status elapsed(Event from, Event to, TimeNs& duration) override {
    return to_.elapsed(from, to, duration);
  }
  Status copy_out(std::byte* to, Address from, Bytes bytes, Stream stream) override {
    return to_.copy_out(to, from, bytes, stream);
  }
  Status copy_in(Address to, const std::byte* from, Bytes bytes, Stream stream) override {
    return to_.copy_in(to, from, bytes, stream);
  }
  Status copy_within(Address to, Address from, Bytes bytes, Stream stream) override {
    return to_.copy_within(to, from, bytes, stream);
  }
  Status fill(Address address, std::byte value, Bytes bytes, Stream stream) override {
    return to_.fill(address, value, bytes, stream);
  }

 private:
  runtime::DeviceDriver& to_;
};

}  // namespace spillway::testing
