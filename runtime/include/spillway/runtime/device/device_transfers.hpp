// SPDX-License-Identifier: Apache-2.0
// Copies among a card, host memory and the disk, as the mover asks for them.
//
//     copy     card <-> host      streams (StreamTransfers)
//     submit   card <-> disk      chunks of page-locked memory (DiskPassage)
//              host <-> disk      the transfers of the disk, as they are
//
// A copy into the card is over, for who asked, when it is *issued*: the block's fence then tells
// what each stream has to wait for. It is issued when its block is open, which for one that is
// fetched ahead may take a while; where the block could not be opened the copy is `unplaced`. One
// that the program waits for is issued at once, past all others, and over when `copy` or `hurry`
// returns. A copy out is over when the host has seen its end. Which fences there are, the tier
// knows: copies begin after `StreamTier::uses`, on the device.
//
// A thread looks for what has ended (DeviceWatcher) and tells of it. Where a test says when to
// look, there is no thread. When the device is lost, every copy under way ends with EIO, and no
// further one begins: results and refusals say what the device said. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_watcher.hpp"
#include "spillway/runtime/device/disk_passage.hpp"
#include "spillway/runtime/device/pinned_host_memory.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_tier.hpp"
#include "spillway/runtime/device/stream_transfers.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// Who looks for what has ended.
enum class Looking : bool { kThread, kCaller };

class DeviceTransfers final : public Transfers {
 public:
  /// Those it is given outlive it. Passages to the disk go through chunks of `chunk` bytes of
  /// `chunks`, which is not `host`: what lies there must not keep others from coming back.
  DeviceTransfers(StreamClock& clock, StreamTier& tier, PinnedHostMemory& host,
                  PinnedHostMemory& chunks, Bytes chunk, std::unique_ptr<Transfers> disk,
                  Looking looking = Looking::kThread);
  /// Waits for what is under way.
  ~DeviceTransfers() override;

  TransferId submit(Transfer transfer, TransferDone done) override;
  std::optional<TransferId> copy(const MemoryCopy& copy, TransferDone done) override;
  bool cancel(TransferId id) override;
  bool hurry(TransferId id) override;
  void drain() override;
  void before_fork() override;
  [[nodiscard]] IoMethod method() const override { return disk_->method(); }
  [[nodiscard]] Bytes bytes_written() const override { return disk_->bytes_written(); }
  [[nodiscard]] Bytes bytes_read() const override { return disk_->bytes_read(); }
  [[nodiscard]] std::string awaited() const override;

  /// For Looking::kCaller: goes on, and tells what has ended. Returns whether anything is under
  /// way.
  bool look();

 private:
  struct Pending {
    DeviceBlock* block = nullptr;
    const std::byte* host = nullptr;
    Direction direction = Direction::kOut;
    std::shared_ptr<PageOpening> opening{};  // kIn: of the block
    TransferDone done;
  };
  struct Over {
    TransferDone done;
    TransferResult result;
  };
  using Table = std::unordered_map<TransferId, Pending>;

  /// Says that an id is StreamTransfers', or DiskPassage's; else it is the disk's own.
  static constexpr TransferId kOfMemory = TransferId{1} << 62;
  static constexpr TransferId kOfPassage = TransferId{1} << 61;

  void refuse_if_lost() const;
  bool issue_now(TransferId id);
  void issued(const Pending& copy, const Fence& fence);
  [[nodiscard]] TransferResult refusal_of(const Pending& copy, DeviceStatus status) const;
  [[nodiscard]] std::string refused_copy(DeviceStatus status) const;
  /// One that is queued no more is told of soon.
  void refuse(Table::iterator copy, TransferResult why);
  void take_news(std::vector<Over>& over);
  void take_disk_news(std::vector<Over>& over);
  /// Calls all of them, whatever one throws, and returns that.
  std::exception_ptr tell(std::vector<Over>& over);
  void end_all(const std::string& why);
  void wake();

  StreamClock& clock_;
  StreamTier& tier_;
  PinnedHostMemory& host_;
  const std::unique_ptr<Transfers> disk_;
  mutable std::mutex mutex_;
  std::condition_variable told_;
  StreamTransfers streams_;
  DiskPassage passage_;
  Table copies_;               // by StreamTransfers' id
  Table passages_;             // by DiskPassage's id
  std::vector<Over> refused_;  // by the driver, and not told of yet
  std::vector<CopyNews> news_;
  std::vector<DiskNews> disk_news_;
  std::size_t telling_ = 0;               // threads in `done`
  std::string lost_;                      // what the device said last
  std::optional<DeviceWatcher> watcher_;  // last: it uses what is above
};

}  // namespace spillway::runtime
