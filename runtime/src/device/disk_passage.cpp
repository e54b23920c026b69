// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/disk_passage.hpp"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

DiskPassage::DiskPassage(StreamClock& clock, StreamTransfers& transfers, Transfers& disk,
                         PinnedHostMemory& host, Bytes chunk, std::size_t chunks)
    : clock_(clock),
      transfers_(transfers),
      disk_(disk),
      host_(host),
      chunk_(chunk),
      most_chunks_(chunks) {
  SPILLWAY_CHECK(chunk.count != 0 && chunk.count % kExtentGranule == 0 && chunks != 0,
                 to_string(chunk));
}

DiskPassage::~DiskPassage() {
  disk_.drain();
  for (const auto& [id, part] : device_parts_) transfers_.cancel(id);
  static_cast<void>(clock_.driver().synchronize());  // a lost device copies nothing any more
  for (std::byte* const chunk : chunks_) static_cast<void>(host_.give_back(chunk, chunk_));
}

TransferId DiskPassage::submit(const DiskCopy& copy) {
  SPILLWAY_CHECK(copy.bytes.count != 0 && copy.bytes.count <= copy.extent.bytes,
                 to_string(copy.bytes));
  const TransferId id = ++last_id_;
  passages_[id].copy = copy;
  const auto is_out = [this](TransferId other) {
    return passages_.at(other).copy.direction == Direction::kOut;
  };
  const bool in = copy.direction == Direction::kIn;
  order_.insert(in ? std::ranges::find_if(order_, is_out) : order_.end(), id);
  return id;
}

bool DiskPassage::cancel(TransferId id) {
  const auto found = passages_.find(id);
  if (found == passages_.end() || found->second.begun != 0 || found->second.error != 0) {
    return false;
  }
  std::erase(order_, id);
  passages_.erase(found);
  return true;
}

void DiskPassage::hurry(TransferId id) {
  const auto found = passages_.find(id);
  if (found == passages_.end()) return;
  found->second.urgent = true;
  if (std::erase(order_, id) != 0) order_.push_front(id);
  for (const auto& [disk_id, passage] : disk_parts_) {
    if (passage == id) disk_.hurry(disk_id);
  }
}

bool DiskPassage::make_chunks() {
  while (chunks_.size() < most_chunks_) {
    std::byte* const chunk = host_.allocate(chunk_);
    if (chunk == nullptr) break;
    chunks_.push_back(chunk);
    free_chunks_.push_back(chunk);
  }
  return !chunks_.empty();
}

void DiskPassage::begin_parts() {
  if (!order_.empty() && chunks_.empty() && !make_chunks()) {
    for (const TransferId id : std::exchange(order_, {})) passages_.at(id).error = ENOMEM;
  }
  const auto may_begin = [this](TransferId id) {
    const Passage& passage = passages_.at(id);
    return passage.urgent || passage.copy.opening == nullptr || passage.copy.opening->over();
  };
  while (!free_chunks_.empty()) {
    const auto next = std::ranges::find_if(order_, may_begin);
    if (next == order_.end()) return;
    Passage& passage = passages_.at(*next);
    note_opening(passage);
    if (passage.error == 0) begin_part(*next, passage);
    if (passage.error != 0 || passage.begun == passage.copy.bytes.count) order_.erase(next);
  }
}

void DiskPassage::note_opening(Passage& passage) {
  const auto& opening = passage.copy.opening;
  if (passage.error != 0 || opening == nullptr || !opening->over() || opening->done()) return;
  passage.error = EIO;
  passage.by_device = true;
}

void DiskPassage::begin_part(TransferId id, Passage& passage) {
  const Part part{id, free_chunks_.back(), passage.begun,
                  std::min(chunk_.count, passage.copy.bytes.count - passage.begun)};
  free_chunks_.pop_back();
  passage.begun += part.bytes;
  ++passage.under_way;
  if (passage.copy.direction == Direction::kOut) {
    to_device_stream(part, passage);
  } else {
    to_disk(part, passage);
  }
}

void DiskPassage::to_device_stream(const Part& part, Passage& passage) {
  const TransferId id = transfers_.submit({passage.copy.direction,
                                           passage.copy.device + Bytes{part.offset},
                                           part.chunk,
                                           {part.bytes},
                                           passage.copy.after,
                                           passage.copy.opening});
  device_parts_[id] = part;
  if (!passage.urgent || passage.copy.direction == Direction::kOut) return;
  const auto fence = transfers_.hurry(id);
  take_device_news(transfers_.issued_now(id, fence));
}

void DiskPassage::to_disk(const Part& part, Passage& passage) {
  const DiskCopy& copy = passage.copy;
  const Extent extent{copy.extent.offset + part.offset,
                      std::min(chunk_.count, copy.extent.bytes - part.offset)};
  Transfer transfer{copy.direction, part.chunk, extent, copy.descriptor, part.bytes};
  if (passage.urgent) transfer.priority = Priority::kUrgent;
  add_on_disk(1);
  try {
    const TransferId id = disk_.submit(transfer, [this, part](const TransferResult& result) {
      const std::lock_guard lock(landed_mutex_);
      landed_.push_back({part, result.error});
      --on_disk_;
      landed_changed_.notify_all();  // with the lock: the owner may destroy this when it has it
    });
    disk_parts_[id] = part.passage;
  } catch (const std::exception& error) {  // no thread can be started
    add_on_disk(-1);
    free_chunks_.push_back(part.chunk);
    if (passage.error == 0) passage.said = error.what();
    end_part(part, EIO);
  }
}

void DiskPassage::add_on_disk(int parts) {
  const std::lock_guard lock(landed_mutex_);
  on_disk_ += parts;
}

void DiskPassage::end_part(const Part& part, int error) {
  Passage& passage = passages_.at(part.passage);
  --passage.under_way;
  if (passage.error == 0) passage.error = error;
}

void DiskPassage::take_device_news(const CopyNews& news) {
  if (const auto leaving = leaving_chunks_.find(news.id);
      leaving != leaving_chunks_.end() && news.stage == CopyStage::kEnded) {
    free_chunks_.push_back(leaving->second);
    leaving_chunks_.erase(leaving);
    return;
  }
  const auto found = device_parts_.find(news.id);
  if (found == device_parts_.end()) return;
  const Part part = found->second;
  Passage& passage = passages_.at(part.passage);
  const bool out = passage.copy.direction == Direction::kOut;
  if (out && news.stage == CopyStage::kIssued) return;
  device_parts_.erase(found);
  if (news.stage == CopyStage::kFailed) {
    free_chunks_.push_back(part.chunk);
    if (passage.error == 0) {
      passage.by_device = true;
      passage.refusal = news.refusal;
    }
    end_part(part, EIO);
  } else if (out) {
    to_disk(part, passage);
  } else {
    passage.fence.join(news.fence);
    leaving_chunks_[news.id] = part.chunk;
    end_part(part, 0);
  }
}

void DiskPassage::take_landed() {
  std::vector<Landed> landed;
  {
    const std::lock_guard lock(landed_mutex_);
    landed.swap(landed_);
  }
  for (const Landed& one : landed) {
    Passage& passage = passages_.at(one.part.passage);
    if (one.error == 0 && passage.copy.direction == Direction::kIn) {
      to_device_stream(one.part, passage);
      continue;
    }
    free_chunks_.push_back(one.part.chunk);
    end_part(one.part, one.error);
  }
}

void DiskPassage::tell_over(std::vector<DiskNews>& news) {
  for (auto at = passages_.begin(); at != passages_.end();) {
    const auto& [id, passage] = *at;
    const bool all = passage.begun == passage.copy.bytes.count;
    if (passage.under_way != 0 || (!all && passage.error == 0)) {
      ++at;
      continue;
    }
    const CopyStage well =
        passage.copy.direction == Direction::kOut ? CopyStage::kEnded : CopyStage::kIssued;
    news.push_back({id, passage.error == 0 ? well : CopyStage::kFailed, passage.fence,
                    passage.error, passage.by_device, passage.refusal, passage.said});
    std::erase(order_, id);
    std::erase_if(disk_parts_, [over = id](const auto& part) { return part.second == over; });
    at = passages_.erase(at);
  }
}

void DiskPassage::advance(std::span<const CopyNews> device_news, std::vector<DiskNews>& news) {
  for (const CopyNews& one : device_news) take_device_news(one);
  take_landed();
  begin_parts();
  tell_over(news);
}

void DiskPassage::wait_for_disk() {
  std::unique_lock lock(landed_mutex_);
  landed_changed_.wait(lock, [this] { return !landed_.empty() || on_disk_ == 0; });
}

}  // namespace spillway::runtime
