// SPDX-License-Identifier: Apache-2.0
#include "timed_card.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "host_time.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::replay {

namespace {

using runtime::now_ns;

// A thread that is woken as late as this still began in time: a card starts the next piece of work
// at once. A real wait is shorter by as much.
constexpr TimeNs kLateWaking = 500'000;

void sleep_until(TimeNs time) {
  std::this_thread::sleep_until(
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time)));
}

struct Span {
  TimeNs begin;
  TimeNs end;
};

/// Sorted, without overlaps.
template <class Intervals>
std::vector<Span> merged(const Intervals& intervals) {
  std::vector<Span> spans;
  spans.reserve(intervals.size());
  for (const auto& each : intervals) spans.push_back({each.begin, each.end});
  std::ranges::sort(spans, {}, &Span::begin);
  std::vector<Span> result;
  for (const Span& span : spans) {
    if (!result.empty() && span.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, span.end);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

TimeNs length(const std::vector<Span>& spans) {
  TimeNs sum = 0;
  for (const Span& span : spans) sum += span.end - span.begin;
  return sum;
}

TimeNs common(const std::vector<Span>& one, const std::vector<Span>& other) {
  TimeNs sum = 0;
  for (std::size_t i = 0, j = 0; i < one.size() && j < other.size();) {
    sum += std::max<TimeNs>(
        0, std::min(one[i].end, other[j].end) - std::max(one[i].begin, other[j].begin));
    (one[i].end < other[j].end ? i : j) += 1;
  }
  return sum;
}

}  // namespace

// ---- Calls --------------------------------------------------------------------------------------

void TimedCard::hold_caller(TimeNs time) {
  {
    const std::lock_guard lock(mutex_);
    TimeNs& calls = std::this_thread::get_id() == programs_ ? calls_ : calls_beside_;
    calls += times_.stretched(static_cast<double>(time));
  }
  const std::lock_guard turn(mapping_);
  HostTime::spend(times_.stretched(static_cast<double>(time)));
}

TimedCard::Status TimedCard::create(Bytes bytes, Handle& handle) {
  hold_caller(times_.create);
  const Status status = ForwardingDriver::create(bytes, handle);
  const std::lock_guard lock(mutex_);
  if (status.done()) handles_[handle] = bytes;
  return status;
}

TimedCard::Status TimedCard::map(Address address, Bytes bytes, Handle handle) {
  hold_caller(times_.map);
  return ForwardingDriver::map(address, bytes, handle);
}

TimedCard::Status TimedCard::allow_access(Address address, Bytes bytes) {
  bool beside = false;
  {
    const std::lock_guard lock(mutex_);
    beside = running_[kOut] != 0;
  }
  hold_caller(beside ? times_.allow_access_beside_out : times_.allow_access);
  return ForwardingDriver::allow_access(address, bytes);
}

TimedCard::Status TimedCard::unmap(Address address, Bytes bytes) {
  hold_caller(times_.unmap);
  return ForwardingDriver::unmap(address, bytes);
}

TimedCard::Status TimedCard::release(Handle handle) {
  Bytes bytes{};
  {
    const std::lock_guard lock(mutex_);
    const auto found = handles_.find(handle);
    if (found != handles_.end()) {
      bytes = found->second;
      handles_.erase(found);
    }
  }
  hold_caller(times_.release +
              static_cast<TimeNs>(static_cast<double>(bytes.count) * times_.release_of_byte));
  return ForwardingDriver::release(handle);
}

// ---- Work ---------------------------------------------------------------------------------------

TimeNs TimedCard::begin_work(Kind kind, std::size_t place, TimeNs launched) {
  const std::lock_guard lock(mutex_);
  ++running_[kind];
  const TimeNs now = now_ns();
  const TimeNs free = free_at_[kind][place];
  return std::max(launched, now - free < kLateWaking ? free : now);
}

void TimedCard::end_work(Kind kind, std::size_t place, const Interval& interval) {
  {
    const std::lock_guard lock(mutex_);
    free_at_[kind][place] = interval.end;
    done_[kind].push_back(interval);
  }
  sleep_until(interval.end);
  const std::lock_guard lock(mutex_);
  --running_[kind];
}

TimedCard::Status TimedCard::launch(Stream stream, std::vector<testing::DeviceAccess> accesses,
                                    TimeNs duration) {
  const TimeNs launched = now_ns();
  const auto place = static_cast<std::size_t>(stream);
  return device_.launch(
      stream, std::move(accesses),
      [this, place, launched, lasts = times_.stretched(static_cast<double>(duration))](auto) {
        const TimeNs begin = begin_work(kKernel, place, launched);
        end_work(kKernel, place, {launched, begin, begin + lasts});
      });
}

TimedCard::Status TimedCard::copy(Kind kind, Address device, Bytes bytes, Stream stream) {
  const TimeNs launched = now_ns();
  return device_.launch(stream, {{device, bytes}}, [this, kind, launched, bytes](auto) {
    const TimeNs begin = begin_work(kind, 0, launched);
    bool beside = false;
    {
      const std::lock_guard lock(mutex_);
      beside = running_[kind == kOut ? kIn : kOut] != 0;
    }
    const double seconds =
        static_cast<double>(bytes.count) / (beside ? times_.both_ways : times_.one_way);
    end_work(kind, 0, {launched, begin, begin + times_.stretched(seconds * 1e9)});
  });
}

TimedCard::Status TimedCard::copy_out(std::byte* /*to*/, Address from, Bytes bytes, Stream stream) {
  return copy(kOut, from, bytes, stream);
}

TimedCard::Status TimedCard::copy_in(Address to, const std::byte* /*from*/, Bytes bytes,
                                     Stream stream) {
  return copy(kIn, to, bytes, stream);
}

// ---- The account --------------------------------------------------------------------------------

void TimedCard::begin_account() {
  const std::lock_guard lock(mutex_);
  for (auto& intervals : done_) intervals.clear();
  programs_ = std::this_thread::get_id();
  calls_ = calls_beside_ = 0;
}

Busy TimedCard::busy() {
  const std::lock_guard lock(mutex_);
  const std::vector<Span> kernels = merged(done_[kKernel]);
  const std::vector<Span> out = merged(done_[kOut]);
  const std::vector<Span> in = merged(done_[kIn]);
  std::vector<Span> either = out;
  either.insert(either.end(), in.begin(), in.end());
  Busy busy{.kernels = length(kernels),
            .out = length(out),
            .in = length(in),
            .copies_beside_kernels = common(kernels, merged(either)),
            .both_ways = common(out, in),
            .calls = calls_,
            .calls_beside = calls_beside_};
  // Gaps of the one stream that computes: until the next kernel is launched the host is late, then
  // the kernel waits.
  std::vector<Interval> order = done_[kKernel];
  std::ranges::sort(order, {}, &Interval::begin);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TimeNs gap_begins = order[i - 1].end;
    const TimeNs gap_ends = order[i].begin;
    if (gap_ends <= gap_begins) continue;
    const TimeNs launched = std::clamp(order[i].launched, gap_begins, gap_ends);
    busy.nothing_launched += launched - gap_begins;
    busy.awaited += gap_ends - launched;
  }
  return busy;
}

}  // namespace spillway::replay
