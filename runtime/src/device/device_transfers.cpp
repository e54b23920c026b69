// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/device_transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <iterator>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

constexpr const char* kNoMemory = "the device refused the memory that it was to fill";

}  // namespace

std::string DeviceTransfers::refused_copy(DeviceStatus status) const {
  return "the device's driver refused the copy: " + clock_.driver().text(status);
}

DeviceTransfers::DeviceTransfers(StreamClock& clock, StreamTier& tier, PinnedHostMemory& host,
                                 PinnedHostMemory& chunks, Bytes chunk,
                                 std::unique_ptr<Transfers> disk, Looking looking)
    : clock_(clock),
      tier_(tier),
      host_(host),
      disk_(std::move(disk)),
      streams_(clock),
      passage_(clock, streams_, *disk_, chunks, chunk) {
  if (looking == Looking::kCaller) return;
  watcher_.emplace(
      clock.driver(), [this] { return look(); },
      [this](const std::string& said) { end_all(said); });
}

DeviceTransfers::~DeviceTransfers() {
  if (watcher_) drain();
  watcher_.reset();
}

void DeviceTransfers::refuse_if_lost() const {
  if (!lost_.empty()) throw UserError(lost_);
}

void DeviceTransfers::wake() {
  if (watcher_) watcher_->wake();
}

TransferId DeviceTransfers::submit(Transfer transfer, TransferDone done) {
  DeviceBlock* const block = tier_.find(transfer.memory);
  if (block == nullptr) return disk_->submit(transfer, std::move(done));
  const std::lock_guard lock(mutex_);
  refuse_if_lost();
  const bool in = transfer.direction == Direction::kIn;
  const auto opening = in ? tier_.opening(*block) : nullptr;
  const TransferId id = passage_.submit({.direction = transfer.direction,
                                         .device = device_address(transfer.memory),
                                         .bytes = {transfer.length},
                                         .extent = transfer.extent,
                                         .descriptor = transfer.descriptor,
                                         .after = tier_.uses(*block),
                                         .opening = opening});
  passages_[id] = {block, nullptr, transfer.direction, opening, std::move(done)};
  wake();
  return id | kOfPassage;
}

std::optional<TransferId> DeviceTransfers::copy(const MemoryCopy& copy, TransferDone done) {
  DeviceBlock* const source = tier_.find(copy.from);
  DeviceBlock* const target = tier_.find(copy.to);
  SPILLWAY_CHECK((source == nullptr) != (target == nullptr), "a copy within one tier");
  const bool out = source != nullptr;
  DeviceBlock& block = out ? *source : *target;
  // What is copied out goes to memory that the mover has, and what is copied in is only read.
  auto* const host = const_cast<std::byte*>(out ? copy.to : copy.from);
  const auto opening = out ? nullptr : tier_.opening(block);
  // One without pages is told of like all others.
  const bool at_once = copy.awaited && !out && (opening == nullptr || tier_.finish(*opening));
  const std::lock_guard lock(mutex_);
  refuse_if_lost();
  const Pending pending{&block, host, out ? Direction::kOut : Direction::kIn, opening,
                        std::move(done)};
  const TransferId id = streams_.submit({pending.direction, device_address(block.address), host,
                                         copy.bytes, tier_.uses(block), opening});
  if (at_once) {
    const auto fence = streams_.hurry(id);
    if (!fence) throw UserError(refused_copy(streams_.last_refusal()));
    issued(pending, *fence);
    return std::nullopt;
  }
  copies_[id] = pending;
  wake();
  return id | kOfMemory;
}

bool DeviceTransfers::cancel(TransferId id) {
  const std::lock_guard lock(mutex_);
  if ((id & kOfMemory) != 0) {
    if (!streams_.cancel(id & ~kOfMemory)) return false;
    copies_.erase(id & ~kOfMemory);
    return true;
  }
  if ((id & kOfPassage) == 0) return disk_->cancel(id);
  if (!passage_.cancel(id & ~kOfPassage)) return false;
  passages_.erase(id & ~kOfPassage);
  return true;
}

bool DeviceTransfers::hurry(TransferId id) {
  const std::lock_guard lock(mutex_);
  if ((id & kOfMemory) != 0) return issue_now(id & ~kOfMemory);
  if ((id & kOfPassage) == 0) return disk_->hurry(id);
  passage_.hurry(id & ~kOfPassage);
  wake();
  return false;
}

// A copy that is issued, but not told of, is told of soon; so is one that the driver refuses.
bool DeviceTransfers::issue_now(TransferId id) {
  const auto found = copies_.find(id);
  if (found == copies_.end() || !streams_.queued(id)) return false;
  if (found->second.opening != nullptr) tier_.finish(*found->second.opening);
  std::optional<Fence> fence;
  try {
    fence = streams_.hurry(id);
  } catch (const DeviceFailure& failure) {
    // It is queued no more, and nobody else would tell of it.
    refuse(found, {.error = EIO, .said = failure.what()});
    throw;
  }
  if (!fence) {
    refuse(found, refusal_of(found->second, streams_.last_refusal()));
    return false;
  }
  issued(found->second, *fence);
  copies_.erase(found);
  return true;
}

void DeviceTransfers::refuse(Table::iterator copy, TransferResult why) {
  refused_.push_back({std::move(copy->second.done), std::move(why)});
  copies_.erase(copy);
  wake();
}

void DeviceTransfers::issued(const Pending& copy, const Fence& fence) {
  tier_.arrives(*copy.block, fence);
  if (copy.host != nullptr) host_.note_use(copy.host, fence);
}

TransferResult DeviceTransfers::refusal_of(const Pending& copy, DeviceStatus status) const {
  const bool unplaced = copy.opening != nullptr && !copy.opening->done();
  return {.error = EIO, .said = unplaced ? kNoMemory : refused_copy(status), .unplaced = unplaced};
}

void DeviceTransfers::take_news(std::vector<Over>& over) {
  std::ranges::move(refused_, std::back_inserter(over));
  refused_.clear();
  for (const CopyNews& news : news_) {
    const auto found = copies_.find(news.id);
    if (found == copies_.end()) continue;  // of a passage; or a copy in ends, which was over before
    Pending& copy = found->second;
    const bool in = copy.direction == Direction::kIn;
    if (news.stage == CopyStage::kIssued && !in) continue;
    if (news.stage == CopyStage::kIssued) issued(copy, news.fence);
    TransferResult result;
    if (news.stage == CopyStage::kFailed) result = refusal_of(copy, news.refusal);
    over.push_back({std::move(copy.done), std::move(result)});
    copies_.erase(found);
  }
}

void DeviceTransfers::take_disk_news(std::vector<Over>& over) {
  for (const DiskNews& news : disk_news_) {
    const auto found = passages_.find(news.id);
    if (found == passages_.end()) continue;
    Pending& copy = found->second;
    // Parts of a copy that failed are on their way into the block, too.
    if (copy.direction == Direction::kIn) issued(copy, news.fence);
    TransferResult result{.error = news.error, .said = news.said};
    if (news.by_device) result = refusal_of(copy, news.refusal);
    over.push_back({std::move(copy.done), std::move(result)});
    passages_.erase(found);
  }
}

bool DeviceTransfers::look() {
  std::vector<Over> over;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    news_.clear();
    disk_news_.clear();
    streams_.advance(news_);
    passage_.advance(news_, disk_news_);
    take_news(over);
    take_disk_news(over);
    more = streams_.busy() || passage_.busy();
    ++telling_;
  }
  if (const auto failure = tell(over)) std::rethrow_exception(failure);
  return more;
}

std::exception_ptr DeviceTransfers::tell(std::vector<Over>& over) {
  std::exception_ptr failure;
  for (Over& one : over) {
    try {
      one.done(one.result);
    } catch (...) {
      failure = std::current_exception();  // others wait for theirs
    }
    one.done = nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    --telling_;
    told_.notify_all();
  }
  return failure;
}

void DeviceTransfers::end_all(const std::string& why) {
  std::vector<Over> over;
  {
    const std::lock_guard lock(mutex_);
    lost_ = why;
    for (Over& one : refused_) over.push_back({std::move(one.done), {.error = EIO, .said = why}});
    for (Table* const table : {&copies_, &passages_}) {
      for (auto& [id, pending] : *table) {
        over.push_back({std::move(pending.done), {.error = EIO, .said = why}});
      }
      table->clear();
    }
    refused_.clear();
    ++telling_;
  }
  static_cast<void>(tell(over));  // why has been said
}

void DeviceTransfers::drain() {
  {
    std::unique_lock lock(mutex_);
    while (!copies_.empty() || !passages_.empty() || !refused_.empty() || telling_ != 0) {
      if (watcher_) {
        told_.wait(lock);
        continue;
      }
      lock.unlock();
      look();
      lock.lock();
    }
  }
  disk_->drain();
}

// The child has no use of the card, nor of the thread that looks.
void DeviceTransfers::before_fork() {
  drain();
  disk_->before_fork();
}

std::string DeviceTransfers::awaited() const {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) return lost_;
  const std::string ticks = clock_.awaited();
  return fmt::format(
      "the device{} has ended no copy, of {} to or from memory and {} to or from the disk,",
      ticks.empty() ? "" : " (" + ticks + ")", copies_.size(), passages_.size());
}

}  // namespace spillway::runtime
