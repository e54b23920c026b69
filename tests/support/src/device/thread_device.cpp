// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/thread_device.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace spillway::testing {

namespace {

/// The queue of a stream: queues count from 1, and stream 0 is there from the beginning.
std::uint64_t queue_of(runtime::DeviceStream stream) {
  return static_cast<std::uint64_t>(stream) + 1;
}

#ifdef __SANITIZE_THREAD__
/// A program may write a storage while it is copied out, since that copy is thrown away. So the
/// thread sanitizer does not see the read, but everything else.
__attribute__((no_sanitize("thread"))) void read_unseen(std::byte* to, const std::byte* from,
                                                        std::size_t bytes) {
  const volatile std::byte* const source = from;
  for (std::size_t i = 0; i < bytes; ++i) to[i] = source[i];
}
void copy_from_device(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::vector<std::byte> between(bytes);
  read_unseen(between.data(), from, bytes);
  std::memcpy(to, between.data(), bytes);
}
#else
void copy_from_device(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
}
#endif

}  // namespace

ThreadDevice::ThreadDevice(const ThreadDeviceOptions& options)
    : facts_{"stand-in card", 13000, options.memory, options.granule},
      memory_(options.memory, options.granule, options.addresses, options.account),
      locked_(options.lockable),
      queues_(options.pace, options.seed, options.longest_delay_us,
              [this](const StreamTask& task) { return admit(task); }) {
  const auto lock = queues_.lock();
  queues_.open();  // stream 0
}

std::string ThreadDevice::text(Status status) const {
  switch (status.code) {
    case 0:
      return "no error (0)";
    case 1:
      return "invalid value (1)";
    case 2:
      return "out of memory (2)";
    case 600:
      return "not ready (600)";
    case 700:
      return "illegal address (700)";
    case 800:
      return "not permitted (800)";
    default:
      return fmt::format("error {}", status.code);
  }
}

ThreadDevice::Status ThreadDevice::enter(DeviceCall call) {
  queues_.pass_time();
  if (lost_) return kLost;
  Failure& failure = failures_[static_cast<std::size_t>(call)];
  if (failure.after == 0 || --failure.after != 0) return {};
  if (failure.and_later) failure.after = 1;
  return failure.status;
}

void ThreadDevice::fail(DeviceCall call, unsigned nth, Status status, bool and_later) {
  const auto lock = queues_.lock();
  failures_[static_cast<std::size_t>(call)] = {nth, status, and_later};
}

void ThreadDevice::lose(std::string why) {
  const auto lock = queues_.lock();
  lost_ = true;
  if (!why.empty()) complaints_.push_back(std::move(why));
}

bool ThreadDevice::is_page_locked(const std::byte* memory) {
  const auto lock = queues_.lock();
  return locked_.contains({memory, Bytes{1}});
}

void ThreadDevice::complain(std::string what) {
  complaints_.push_back(std::move(what));
  lost_ = true;
}

std::vector<std::string> ThreadDevice::complaints() {
  const auto lock = queues_.lock();
  return complaints_;
}

Bytes ThreadDevice::used() {
  const auto lock = queues_.lock();
  return memory_.used();
}

Bytes ThreadDevice::peak() {
  const auto lock = queues_.lock();
  return memory_.peak();
}

std::uint64_t ThreadDevice::pageable_copies() {
  const auto lock = queues_.lock();
  return pageable_copies_;
}

bool ThreadDevice::admit(const StreamTask& task) {
  for (const DeviceAccess& access : task.accesses) {
    if (lost_) return false;
    if (!memory_.accessible(access.address, access.bytes)) {
      complain(fmt::format("work at {:#x}, {} bytes, where nothing is mapped",
                           to_value(access.address), access.bytes.count));
    }
  }
  return !lost_;
}

ThreadDevice::Status ThreadDevice::memory_info(runtime::DeviceMemoryInfo& info) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kMemoryInfo); !status.done()) return status;
  info = {memory_.free(), memory_.total()};
  return {};
}

ThreadDevice::Status ThreadDevice::enter_thread() { return {}; }

ThreadDevice::Status ThreadDevice::synchronize() {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kSynchronize); !status.done()) return status;
  queues_.await_all(lock);
  return lost_ ? kLost : Status{};
}

ThreadDevice::Status ThreadDevice::reserve(Bytes bytes, std::uint64_t alignment, Address& address) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kReserve); !status.done()) return status;
  const auto found = memory_.reserve(bytes, alignment);
  if (!found) return kOutOfMemory;
  address = *found;
  return {};
}

ThreadDevice::Status ThreadDevice::free_reservation(Address address, Bytes bytes) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kFreeReservation); !status.done()) return status;
  return asked(memory_.free_reservation(address, bytes));
}

ThreadDevice::Status ThreadDevice::create(Bytes bytes, Handle& handle) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCreate); !status.done()) return status;
  if (!memory_.valid_size(bytes)) return kInvalid;
  const auto made = memory_.create(bytes);
  if (!made) return kOutOfMemory;
  handle = *made;
  return {};
}

ThreadDevice::Status ThreadDevice::map(Address address, Bytes bytes, Handle handle) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kMap); !status.done()) return status;
  return asked(memory_.map(address, bytes, handle));
}

ThreadDevice::Status ThreadDevice::allow_access(Address address, Bytes bytes) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kAllowAccess); !status.done()) return status;
  return asked(memory_.allow_access(address, bytes) &&
               (!has_peer_ || memory_.share(address, bytes)));
}

ThreadDevice::Status ThreadDevice::allow_peer(int) {
  const auto lock = queues_.lock();
  has_peer_ = true;
  return {};
}

void ThreadDevice::forget_peer(int) {
  const auto lock = queues_.lock();
  has_peer_ = false;
}

ThreadDevice::Status ThreadDevice::share(Address address, Bytes bytes) {
  const auto lock = queues_.lock();
  return asked(memory_.share(address, bytes));
}

bool ThreadDevice::is_shared(Address address, Bytes bytes) {
  const auto lock = queues_.lock();
  return memory_.is_shared(address, bytes);
}

ThreadDevice::Status ThreadDevice::unmap(Address address, Bytes bytes) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kUnmap); !status.done()) return status;
  if (queues_.uses({address, bytes})) {
    complain(fmt::format("{:#x}, {} bytes, is unmapped while enqueued work uses it",
                         to_value(address), bytes.count));
    return kLost;  // a thread may be in the middle of it: it stays mapped
  }
  return asked(memory_.unmap(address, bytes));
}

ThreadDevice::Status ThreadDevice::release(Handle handle) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kRelease); !status.done()) return status;
  return asked(memory_.release(handle));
}

ThreadDevice::Status ThreadDevice::register_host(std::byte* memory, Bytes bytes) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kRegisterHost); !status.done()) return status;
  const HostRange range(memory, bytes);
  if (!locked_.has_room_for(range)) return kOutOfMemory;
  return asked(locked_.lock(range));
}

ThreadDevice::Status ThreadDevice::unregister_host(std::byte* memory) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kUnregisterHost); !status.done()) return status;
  switch (locked_.unlock(memory)) {
    case LockedHost::Unlocked::kDone:
      return {};
    case LockedHost::Unlocked::kInUse:
      complain("page-locking ends while an enqueued copy uses the memory");
      return kLost;
    case LockedHost::Unlocked::kNothingThere:
      break;
  }
  return kInvalid;
}

ThreadDevice::Status ThreadDevice::create_stream(Stream& stream) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCreateStream); !status.done()) return status;
  stream = Stream{static_cast<std::uintptr_t>(queues_.open() - 1)};
  return {};
}

ThreadDevice::Status ThreadDevice::destroy_stream(Stream stream) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kDestroyStream); !status.done()) return status;
  if (!queues_.is_open(queue_of(stream)) || stream == Stream{0}) return kInvalid;
  queues_.close(queue_of(stream));
  return {};
}

ThreadDevice::Status ThreadDevice::stream_wait(Stream stream, Event event) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kStreamWait); !status.done()) return status;
  const auto found = events_.find(static_cast<std::uintptr_t>(event));
  if (found == events_.end() || !queues_.is_open(queue_of(stream))) return kInvalid;
  if (found->second.latest == nullptr) return {};
  queues_.enqueue(queue_of(stream), {{}, nullptr, found->second.latest, nullptr});
  return {};
}

ThreadDevice::Status ThreadDevice::await(StreamQueues::Lock& lock,
                                         const std::shared_ptr<StreamMark>& mark) {
  queues_.await(lock, mark);
  return lost_ ? kLost : Status{};
}

ThreadDevice::Status ThreadDevice::synchronize_stream(Stream stream) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kSynchronize); !status.done()) return status;
  if (!queues_.is_open(queue_of(stream))) return kInvalid;
  const auto mark = std::make_shared<StreamMark>();
  queues_.enqueue(queue_of(stream), {{}, nullptr, nullptr, mark});
  return await(lock, mark);
}

ThreadDevice::Status ThreadDevice::query_stream(Stream stream) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kQuery); !status.done()) return status;
  if (!queues_.is_open(queue_of(stream))) return kInvalid;
  return queues_.idle(queue_of(stream)) ? Status{} : kNotReady;
}

ThreadDevice::Status ThreadDevice::create_event(runtime::EventTiming timing, Event& event) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCreateEvent); !status.done()) return status;
  events_[++last_event_] = {timing, nullptr};
  event = Event{last_event_};
  return {};
}

ThreadDevice::Status ThreadDevice::destroy_event(Event event) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kDestroyEvent); !status.done()) return status;
  return asked(events_.erase(static_cast<std::uintptr_t>(event)) == 1);
}

ThreadDevice::Status ThreadDevice::record(Event event, Stream stream) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kRecord); !status.done()) return status;
  const auto found = events_.find(static_cast<std::uintptr_t>(event));
  if (found == events_.end() || !queues_.is_open(queue_of(stream))) return kInvalid;
  found->second.latest = std::make_shared<StreamMark>();
  queues_.enqueue(queue_of(stream), {{}, nullptr, nullptr, found->second.latest});
  return {};
}

ThreadDevice::Status ThreadDevice::query(Event event) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kQuery); !status.done()) return status;
  const auto found = events_.find(static_cast<std::uintptr_t>(event));
  if (found == events_.end()) return kInvalid;
  const auto& latest = found->second.latest;
  return latest == nullptr || queues_.ask(*latest) ? Status{} : kNotReady;
}

ThreadDevice::Status ThreadDevice::synchronize_event(Event event) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kSynchronize); !status.done()) return status;
  const auto found = events_.find(static_cast<std::uintptr_t>(event));
  if (found == events_.end()) return kInvalid;
  const auto latest = found->second.latest;
  return latest == nullptr ? Status{} : await(lock, latest);
}

ThreadDevice::Status ThreadDevice::elapsed(Event from, Event to, TimeNs& duration) {
  const auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kElapsed); !status.done()) return status;
  const auto first = events_.find(static_cast<std::uintptr_t>(from));
  const auto last = events_.find(static_cast<std::uintptr_t>(to));
  for (const auto& found : {first, last}) {
    if (found == events_.end() || found->second.timing == runtime::EventTiming::kNo ||
        found->second.latest == nullptr) {
      return kInvalid;
    }
    if (!found->second.latest->passed) return kNotReady;
  }
  duration = last->second.latest->at - first->second.latest->at;
  return {};
}

ThreadDevice::Status ThreadDevice::enqueue(StreamQueues::Lock& lock, Stream stream, StreamTask task,
                                           const HostRange* host) {
  if (!queues_.is_open(queue_of(stream))) return kInvalid;
  for (const DeviceAccess& access : task.accesses) {
    if (access.bytes.count == 0 || !memory_.accessible(access.address, access.bytes)) {
      return kInvalid;
    }
  }
  const auto mark = std::make_shared<StreamMark>();
  task.marks = mark;
  queues_.enqueue(queue_of(stream), std::move(task));
  if (host == nullptr) return {};
  if (!locked_.contains(*host)) {
    ++pageable_copies_;
    return await(lock, mark);
  }
  locked_.note_copy(*host, mark);
  return {};
}

ThreadDevice::Status ThreadDevice::copy_out(std::byte* to, Address from, Bytes bytes,
                                            Stream stream) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCopyOut); !status.done()) return status;
  const std::byte* const shadow = memory_.shadow(from);
  const HostRange host(to, bytes);
  return enqueue(
      lock, stream,
      {{{from, bytes}}, [=] { copy_from_device(to, shadow, bytes.count); }, nullptr, nullptr},
      &host);
}

ThreadDevice::Status ThreadDevice::copy_in(Address to, const std::byte* from, Bytes bytes,
                                           Stream stream) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCopyIn); !status.done()) return status;
  std::byte* const shadow = memory_.shadow(to);
  const HostRange host(from, bytes);
  return enqueue(lock, stream,
                 {{{to, bytes}}, [=] { std::memcpy(shadow, from, bytes.count); }, nullptr, nullptr},
                 &host);
}

ThreadDevice::Status ThreadDevice::copy_within(Address to, Address from, Bytes bytes,
                                               Stream stream) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kCopyWithin); !status.done()) return status;
  std::byte* const target = memory_.shadow(to);
  const std::byte* const source = memory_.shadow(from);
  return enqueue(lock, stream,
                 {{{to, bytes}, {from, bytes}},
                  [=] { std::memmove(target, source, bytes.count); },
                  nullptr,
                  nullptr});
}

ThreadDevice::Status ThreadDevice::fill(Address address, std::byte value, Bytes bytes,
                                        Stream stream) {
  auto lock = queues_.lock();
  if (const Status status = enter(DeviceCall::kFill); !status.done()) return status;
  std::byte* const shadow = memory_.shadow(address);
  return enqueue(lock, stream,
                 {{{address, bytes}},
                  [=] { std::memset(shadow, static_cast<int>(value), bytes.count); },
                  nullptr,
                  nullptr});
}

ThreadDevice::Status ThreadDevice::launch(Stream stream, std::vector<DeviceAccess> accesses,
                                          DeviceKernel kernel) {
  auto lock = queues_.lock();
  queues_.pass_time();
  if (lost_) return kLost;
  std::vector<std::byte*> pointers;
  pointers.reserve(accesses.size());
  for (const DeviceAccess& access : accesses) pointers.push_back(memory_.shadow(access.address));
  auto work = [pointers = std::move(pointers), kernel = std::move(kernel)] { kernel(pointers); };
  return enqueue(lock, stream, {std::move(accesses), std::move(work), nullptr, nullptr});
}

}  // namespace spillway::testing
