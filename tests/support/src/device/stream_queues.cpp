// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/stream_queues.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::testing {
namespace {

TimeNs now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

StreamQueues::StreamQueues(Pace pace, std::uint64_t seed, unsigned longest_delay_us,
                           std::function<bool(const StreamTask&)> admit)
    : pace_(pace),
      seed_(seed),
      longest_delay_us_(longest_delay_us),
      admit_(std::move(admit)),
      random_(seed) {}

StreamQueues::~StreamQueues() {
  {
    Lock held = lock();
    if (pace_ == Pace::kByCalls) await_all(held);
    stopping_ = true;
  }
  changed_.notify_all();
  for (auto& [id, stream] : streams_) {
    if (stream.thread.joinable()) stream.thread.join();
  }
}

std::uint64_t StreamQueues::open() {
  Stream& stream = streams_[++last_id_];
  stream.id = last_id_;
  stream.random.seed(seed_ * 1'000'003 + last_id_);
  stream.awake = random_() % 2 == 0;
  return last_id_;
}

bool StreamQueues::is_open(std::uint64_t stream) const {
  const auto found = streams_.find(stream);
  return found != streams_.end() && found->second.open;
}

bool StreamQueues::idle(std::uint64_t stream) const { return streams_.at(stream).tasks.empty(); }

void StreamQueues::close(std::uint64_t stream) {
  streams_.at(stream).open = false;
  changed_.notify_all();
}

void StreamQueues::enqueue(std::uint64_t stream, StreamTask task) {
  if (task.marks) task.marks->stream = stream;
  Stream& chosen = streams_.at(stream);
  chosen.tasks.push_back(std::move(task));
  // Frameworks make many streams and use few: those would be woken for nothing at every task.
  if (pace_ == Pace::kThreads && !chosen.thread.joinable()) {
    chosen.thread = std::thread([this, &chosen] { serve(chosen); });
  }
  changed_.notify_all();
}

bool StreamQueues::ready(const Stream& stream) {
  return !stream.tasks.empty() &&
         (stream.tasks.front().awaits == nullptr || stream.tasks.front().awaits->passed);
}

void StreamQueues::serve(Stream& stream) {
  Lock held = lock();
  for (;;) {
    changed_.wait(held, [&] {
      return ready(stream) || (stream.tasks.empty() && (stopping_ || !stream.open));
    });
    if (!ready(stream)) return;
    delay(stream, held);
    perform(stream, &held);
  }
}

void StreamQueues::delay(Stream& stream, Lock& lock) {
  const std::uint64_t dice = stream.random() % 8;
  if (longest_delay_us_ == 0 || dice > 1) return;
  const auto sleep = std::chrono::microseconds(stream.random() % longest_delay_us_);
  lock.unlock();
  std::this_thread::sleep_for(sleep);
  lock.lock();
}

void StreamQueues::perform(Stream& stream, Lock* lock) {
  StreamTask& task = stream.tasks.front();  // others only add behind it
  if (admit_(task) && task.work) {
    if (lock != nullptr) lock->unlock();
    task.work();
    if (lock != nullptr) lock->lock();
  }
  if (task.marks) {
    task.marks->passed = true;
    task.marks->at = now();
  }
  stream.tasks.pop_front();
  changed_.notify_all();
}

bool StreamQueues::perform_any(bool asleep_too) {
  std::vector<Stream*> able;
  for (auto& [id, stream] : streams_) {
    if (ready(stream) && (stream.awake || asleep_too)) able.push_back(&stream);
  }
  if (able.empty()) return false;
  perform(*able[random_() % able.size()], nullptr);
  return true;
}

void StreamQueues::pass_time() {
  if (pace_ == Pace::kThreads) return;
  if (random_() % 16 == 0) {
    for (auto& [id, stream] : streams_) stream.awake = random_() % 2 == 0;
  }
  for (std::uint64_t left = random_() % 4; left != 0; --left) {
    if (!perform_any(false)) return;
  }
}

void StreamQueues::perform_for(const StreamMark& mark) {
  Stream& stream = streams_.at(mark.stream);
  SPILLWAY_CHECK(!stream.tasks.empty(), "a mark that is in no stream");
  if (!ready(stream)) {
    perform_for(*stream.tasks.front().awaits);
  } else {
    perform(stream, nullptr);
  }
}

bool StreamQueues::ask(StreamMark& mark) {
  if (mark.passed) return true;
  if (pace_ == Pace::kByCalls && ++mark.asked > 2 && random_() % 2 == 0) {
    while (!mark.passed) perform_for(mark);
  }
  return mark.passed;
}

void StreamQueues::await(Lock& lock, const std::shared_ptr<StreamMark>& mark) {
  if (pace_ == Pace::kThreads) {
    changed_.wait(lock, [&] { return mark->passed; });
    return;
  }
  while (!mark->passed) {
    if (random_() % 8 != 0 || !perform_any(true)) perform_for(*mark);
  }
}

void StreamQueues::await_all(Lock& lock) {
  if (pace_ == Pace::kByCalls) {
    while (perform_any(true)) {
    }
    return;
  }
  changed_.wait(lock, [&] {
    return std::ranges::all_of(streams_, [](const auto& s) { return s.second.tasks.empty(); });
  });
}

bool StreamQueues::uses(const DeviceAccess& range) const {
  const std::uint64_t begin = to_value(range.address);
  for (const auto& [id, stream] : streams_) {
    for (const StreamTask& task : stream.tasks) {
      for (const DeviceAccess& access : task.accesses) {
        const std::uint64_t first = to_value(access.address);
        if (first < begin + range.bytes.count && begin < first + access.bytes.count) return true;
      }
    }
  }
  return false;
}

}  // namespace spillway::testing
