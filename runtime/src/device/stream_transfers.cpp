// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

StreamTransfers::StreamTransfers(StreamClock& clock) : clock_(clock), driver_(clock.driver()) {
  for (Lane& lane : lanes_) {
    expect_done(driver_, driver_.create_stream(lane.stream), "making a stream for copies");
    lane.slot = clock_.slot_of(lane.stream);
  }
}

StreamTransfers::~StreamTransfers() {
  for (const Lane& lane : lanes_) {
    // A lost device copies nothing any more.
    static_cast<void>(driver_.synchronize_stream(lane.stream));
    clock_.forget(lane.stream);
    static_cast<void>(driver_.destroy_stream(lane.stream));
  }
}

TransferId StreamTransfers::submit(const DeviceCopy& copy) {
  queue(copy.direction).push_back({++last_id_, copy});
  return last_id_;
}

bool StreamTransfers::cancel(TransferId id) {
  return std::ranges::any_of(queues_, [id](std::deque<Queued>& queue) {
    return std::erase_if(queue, [id](const Queued& queued) { return queued.id == id; }) != 0;
  });
}

bool StreamTransfers::queued(TransferId id) const {
  return std::ranges::any_of(queues_, [id](const std::deque<Queued>& queue) {
    return std::ranges::find(queue, id, &Queued::id) != queue.end();
  });
}

std::optional<Fence> StreamTransfers::issue(Lane& lane, const Queued& queued) {
  const DeviceCopy& copy = queued.copy;
  refusal_ = {};
  if (copy.opening != nullptr && !copy.opening->finish()) return std::nullopt;
  clock_.order_after(lane.stream, copy.after);
  const DeviceStatus status =
      copy.direction == Direction::kOut
          ? driver_.copy_out(copy.host, copy.device, copy.bytes, lane.stream)
          : driver_.copy_in(copy.device, copy.host, copy.bytes, lane.stream);
  if (status.outcome == DeviceOutcome::kLost) {
    expect_done(driver_, status, fmt::format("copying {}", to_string(copy.bytes)));
  }
  if (!status.done()) {
    refusal_ = status;
    return std::nullopt;
  }
  const Fence fence = clock_.fence(lane.slot);
  try {
    clock_.tick(lane.slot);
  } catch (const DeviceFailure&) {
    // Who asks for the fence records one; the copy is in its stream and has to be known of.
  }
  lane.flights.push_back({queued.id, fence});
  copied_[static_cast<std::size_t>(copy.direction)] += copy.bytes;
  return fence;
}

std::optional<Fence> StreamTransfers::hurry(TransferId id) {
  for (std::deque<Queued>& queue : queues_) {
    const auto found = std::ranges::find(queue, id, &Queued::id);
    if (found == queue.end()) continue;
    const Queued queued = *found;
    queue.erase(found);
    const bool out = queued.copy.direction == Direction::kOut;
    return issue(lanes_[out ? kOutLane : kUrgentLane], queued);
  }
  throw InternalError(fmt::format("copy {} is hurried, but is not queued", id));
}

void StreamTransfers::issue_queued(Direction direction, Lane& lane, std::vector<CopyNews>& news) {
  std::deque<Queued>& waiting = queue(direction);
  const auto opened = [](const Queued& queued) {
    return queued.copy.opening == nullptr || queued.copy.opening->over();
  };
  // What is awaited comes first: beside it nothing else takes a share of the link.
  const auto in_flight = [&] {
    const bool in = direction == Direction::kIn;
    return lane.flights.size() + (in ? lanes_[kUrgentLane].flights.size() : 0);
  };
  while (!waiting.empty() && in_flight() < kInFlight && opened(waiting.front())) {
    const Queued queued = waiting.front();
    waiting.pop_front();
    const auto fence = issue(lane, queued);
    news.push_back(issued_now(queued.id, fence));
  }
}

void StreamTransfers::tell_ended(std::vector<CopyNews>& news) {
  for (Lane& lane : lanes_) {
    while (!lane.flights.empty() && clock_.passed(lane.flights.front().fence)) {
      news.push_back({lane.flights.front().id, CopyStage::kEnded, {}});
      lane.flights.pop_front();
    }
  }
}

void StreamTransfers::advance(std::vector<CopyNews>& news) {
  tell_ended(news);
  issue_queued(Direction::kOut, lanes_[kOutLane], news);
  issue_queued(Direction::kIn, lanes_[kInLane], news);
}

bool StreamTransfers::busy() const {
  return std::ranges::any_of(queues_, [](const auto& queue) { return !queue.empty(); }) ||
         std::ranges::any_of(lanes_, [](const Lane& lane) { return !lane.flights.empty(); });
}

bool StreamTransfers::wait_for_one(Direction direction) {
  Lane& lane = lanes_[direction == Direction::kOut ? kOutLane : kInLane];
  if (lane.flights.empty()) return false;
  clock_.wait(lane.flights.front().fence);
  return true;
}

}  // namespace spillway::runtime
