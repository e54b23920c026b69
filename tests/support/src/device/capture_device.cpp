// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/capture_device.hpp"

#include <algorithm>

namespace spillway::testing {

using Status = runtime::DeviceStatus;

CaptureMode& CaptureDevice::thread_mode() {
  thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

Status CaptureDevice::begin_capture(Stream stream, CaptureMode mode) {
  const std::lock_guard lock(mutex_);
  if (stream == Stream{} || of(stream) != nullptr) return kUnsupported;
  Capture& capture = captures_[++last_id_];
  capture.id = last_id_;
  capture.origin = stream;
  capture.mode = mode;
  capture.thread = std::this_thread::get_id();
  capture.members[stream] = {};
  streams_[stream] = last_id_;
  ++ongoing_;
  return {};
}

Status CaptureDevice::end_capture(Stream stream, CapturedGraph& graph) {
  const std::lock_guard lock(mutex_);
  Capture* const found = of(stream);
  if (found == nullptr || found->origin != stream) return kUnmatched;
  const Capture capture = std::move(*found);
  captures_.erase(capture.id);
  std::erase_if(streams_, [&](const auto& one) { return one.second == capture.id; });
  --ongoing_;
  if (capture.is_spoiled) return kSpoiled;
  const bool joined = std::ranges::all_of(capture.members, [&](const auto& member) {
    return member.first == stream || member.second.issued <= member.second.awaited;
  });
  if (!joined) return kUnjoined;
  graph = capture.graph;
  return {};
}

CaptureDevice::Info CaptureDevice::capture_of(Stream stream) {
  if (ongoing_ == 0) return {};
  const std::lock_guard lock(mutex_);
  const Capture* const capture = of(stream);
  if (capture == nullptr) return {};
  return {capture->is_spoiled ? CaptureStatus::kSpoiled : CaptureStatus::kActive, capture->id};
}

Status CaptureDevice::replay(const CapturedGraph& graph, Stream stream) {
  for (const StreamWork& work : graph) {
    if (const Status status = work(stream); !status.done()) return status;
  }
  return {};
}

CaptureDevice::Capture* CaptureDevice::of(Stream stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &captures_.at(found->second);
}

Status CaptureDevice::spoiled(Capture& capture, Status status) {
  capture.is_spoiled = true;
  return status;
}

Status CaptureDevice::unsafe_call() {
  if (ongoing_ == 0) return {};
  const std::lock_guard lock(mutex_);
  return unsafe_call_locked();
}

Status CaptureDevice::unsafe_call_locked() {
  Status result;
  for (auto& [id, capture] : captures_) {
    const bool own = capture.thread == std::this_thread::get_id();
    const bool forbidden =
        capture.mode != CaptureMode::kRelaxed && thread_mode() != CaptureMode::kRelaxed &&
        (own || (capture.mode == CaptureMode::kGlobal && thread_mode() == CaptureMode::kGlobal));
    if (forbidden) result = spoiled(capture, kUnsupported);
  }
  return result;
}

Status CaptureDevice::issue(Stream stream, StreamWork work) {
  if (ongoing_ != 0) {
    const std::lock_guard lock(mutex_);
    if (Capture* const capture = of(stream)) {
      if (capture->is_spoiled) return kSpoiled;
      capture->graph.push_back(std::move(work));
      capture->members[stream].issued = capture->graph.size();
      return {};
    }
  }
  return work(stream);
}

Status CaptureDevice::ask(Stream stream) {
  if (ongoing_ == 0) return {};
  const std::lock_guard lock(mutex_);
  if (Capture* const capture = of(stream)) return spoiled(*capture, kUnsupported);
  return unsafe_call_locked();
}

Status CaptureDevice::ask(Event event) {
  const std::lock_guard lock(mutex_);
  const auto recorded = events_.find(event);
  if (recorded == events_.end()) return unsafe_call_locked();
  const auto capture = captures_.find(recorded->second.capture);
  return capture != captures_.end() ? spoiled(capture->second, kCapturedEvent) : kCapturedEvent;
}

Status CaptureDevice::record(Event event, Stream stream) {
  {
    const std::lock_guard lock(mutex_);
    if (const Capture* const capture = of(stream)) {
      if (capture->is_spoiled) return kSpoiled;
      events_[event] = {capture->id, stream, capture->graph.size()};
      return {};
    }
    events_.erase(event);
  }
  return ThreadDevice::record(event, stream);
}

Status CaptureDevice::stream_wait(Stream stream, Event event) {
  {
    const std::lock_guard lock(mutex_);
    Capture* const waits = of(stream);
    const auto recorded = events_.find(event);
    if (recorded == events_.end()) {
      if (waits != nullptr) return spoiled(*waits, kIsolation);
    } else {
      const auto awaited = captures_.find(recorded->second.capture);
      if (awaited == captures_.end()) return kCapturedEvent;
      Capture& capture = awaited->second;
      if (waits != nullptr && waits != &capture) return spoiled(*waits, kIsolation);
      streams_[stream] = capture.id;
      capture.members.try_emplace(stream);
      std::size_t& known = capture.members[recorded->second.stream].awaited;
      if (stream != recorded->second.stream) known = std::max(known, recorded->second.works);
      return {};
    }
  }
  return ThreadDevice::stream_wait(stream, event);
}

Status CaptureDevice::launch(Stream stream, std::vector<DeviceAccess> accesses,
                             DeviceKernel kernel) {
  return issue(stream, [this, accesses = std::move(accesses), kernel = std::move(kernel)](
                           Stream in) { return ThreadDevice::launch(in, accesses, kernel); });
}

Status CaptureDevice::copy_out(std::byte* to, Address from, Bytes bytes, Stream stream) {
  return issue(stream,
               [=, this](Stream in) { return ThreadDevice::copy_out(to, from, bytes, in); });
}

Status CaptureDevice::copy_in(Address to, const std::byte* from, Bytes bytes, Stream stream) {
  return issue(stream, [=, this](Stream in) { return ThreadDevice::copy_in(to, from, bytes, in); });
}

Status CaptureDevice::copy_within(Address to, Address from, Bytes bytes, Stream stream) {
  return issue(stream,
               [=, this](Stream in) { return ThreadDevice::copy_within(to, from, bytes, in); });
}

Status CaptureDevice::fill(Address address, std::byte value, Bytes bytes, Stream stream) {
  return issue(stream,
               [=, this](Stream in) { return ThreadDevice::fill(address, value, bytes, in); });
}

Status CaptureDevice::query_stream(Stream stream) {
  const Status may = ask(stream);
  return may.done() ? ThreadDevice::query_stream(stream) : may;
}

Status CaptureDevice::synchronize_stream(Stream stream) {
  const Status may = ask(stream);
  return may.done() ? ThreadDevice::synchronize_stream(stream) : may;
}

Status CaptureDevice::synchronize() {
  if (ongoing_ != 0) {
    const std::lock_guard lock(mutex_);
    for (auto& [id, capture] : captures_) capture.is_spoiled = true;  // it would wait for them, too
    if (!captures_.empty()) return kUnsupported;
  }
  return ThreadDevice::synchronize();
}

Status CaptureDevice::query(Event event) {
  const Status may = ask(event);
  return may.done() ? ThreadDevice::query(event) : may;
}

Status CaptureDevice::synchronize_event(Event event) {
  const Status may = ask(event);
  return may.done() ? ThreadDevice::synchronize_event(event) : may;
}

Status CaptureDevice::elapsed(Event from, Event to, TimeNs& duration) {
  for (const Event event : {from, to}) {
    if (const Status may = ask(event); !may.done()) return may;
  }
  return ThreadDevice::elapsed(from, to, duration);
}

Status CaptureDevice::register_host(std::byte* memory, Bytes bytes) {
  const Status may = unsafe_call();
  return may.done() ? ThreadDevice::register_host(memory, bytes) : may;
}

Status CaptureDevice::unregister_host(std::byte* memory) {
  const Status may = unsafe_call();
  return may.done() ? ThreadDevice::unregister_host(memory) : may;
}

}  // namespace spillway::testing
