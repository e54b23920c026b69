// SPDX-License-Identifier: Apache-2.0
// Copies between a card and the disk, in chunks through page-locked memory.
//
//   out    device ==OUT==> chunk ==write==> extent       kEnded: all of it is on the disk
//   in     extent ==read==> chunk ==IN==> device         kIssued: all of it is in the stream
//
//   chunks   [ c0: being read | c1: in the stream | c2: being read | c3: free ]
//
// A card reads and writes page-locked memory at the speed of its link and other memory at a part of
// it, and page-locking costs more than a chunk's copy: so there are a few chunks, locked once, and
// both legs of a copy are under way at the same time in different ones. Copies in come before
// copies out, since a program waits for them; of each kind the first submitted comes first. One
// into a block that is still being opened gets no chunk before that, which others can use; one that
// is hurried is read meanwhile.
//
// The disk's part ends on threads of its own, which leave a note here; everything else happens in
// `advance`, under the owner's lock, as in StreamTransfers, whose news it takes. After an error no
// further chunk begins; it is told when those under way have ended, with the errno.
//
// `submit`, `advance` and the rest are guarded by the owner's lock; `wait_for_disk` needs none.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/pinned_host_memory.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_transfers.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// `extent` holds `bytes`, and is the caller's until the end is told.
struct DiskCopy {
  Direction direction = Direction::kOut;  ///< kOut: from the device to the disk
  DeviceAddress device{};
  Bytes bytes{};
  Extent extent{};
  int descriptor = -1;
  Fence after;                             ///< on the device, copies begin when this has passed
  std::shared_ptr<PageOpening> opening{};  ///< kIn: of the block; null: it is open
};

struct DiskNews {
  TransferId id = 0;
  CopyStage stage = CopyStage::kEnded;
  Fence fence;    ///< of all copies into the device, those of a copy that failed included
  int error = 0;  ///< kFailed: the errno of the disk, or EIO of the device, or ENOMEM of chunks
  bool by_device = false;  ///< kFailed: the device refused a copy; the disk is well
  DeviceStatus refusal{};  ///< and what its driver said, if it was asked
  std::string said{};      ///< kFailed: by whoever knows more than the errno
};

class DiskPassage {
 public:
  static constexpr std::size_t kChunks = 8;

  /// All outlive it. Chunks are taken from `host` at the first copy.
  DiskPassage(StreamClock& clock, StreamTransfers& transfers, Transfers& disk,
              PinnedHostMemory& host, Bytes chunk = {kTransferChunk}, std::size_t chunks = kChunks);
  /// Waits for what is under way.
  ~DiskPassage();
  DiskPassage(const DiskPassage&) = delete;
  DiskPassage& operator=(const DiskPassage&) = delete;

  /// `advance` begins it. Ids are of this object's own.
  TransferId submit(const DiskCopy& copy);
  /// Takes back a copy of which no chunk has begun. False: one has, or it is over.
  bool cancel(TransferId id);
  /// A program waits for it: what is left of it comes before all others, and past all copies that
  /// wait for a stream.
  void hurry(TransferId id);

  /// Goes on, with what StreamTransfers::advance told since the last time (news of others' copies
  /// are passed over), and tells what came to be of whole copies.
  void advance(std::span<const CopyNews> device_news, std::vector<DiskNews>& news);
  [[nodiscard]] bool busy() const { return !passages_.empty(); }
  /// Sleeps until the disk has ended something that `advance` has not seen; returns at once if it
  /// has, or if it has nothing to do. The owner's lock need not be held.
  void wait_for_disk();

 private:
  struct Passage {
    DiskCopy copy;
    std::uint64_t begun = 0;  // bytes whose first leg was begun
    unsigned under_way = 0;   // chunks
    int error = 0;
    bool by_device = false;  // what made the error
    DeviceStatus refusal{};  // of the device's driver
    std::string said{};      // of it
    bool urgent = false;
    Fence fence;
  };
  /// A chunk's part of a copy.
  struct Part {
    TransferId passage = 0;
    std::byte* chunk = nullptr;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Landed {
    Part part;
    int error = 0;
  };

  void take_device_news(const CopyNews& news);
  void take_landed();
  void begin_parts();
  bool make_chunks();
  static void note_opening(Passage& passage);
  void begin_part(TransferId id, Passage& passage);
  void to_device_stream(const Part& part, Passage& passage);
  void to_disk(const Part& part, Passage& passage);
  void add_on_disk(int parts);
  void end_part(const Part& part, int error);
  void tell_over(std::vector<DiskNews>& news);

  StreamClock& clock_;
  StreamTransfers& transfers_;
  Transfers& disk_;
  PinnedHostMemory& host_;
  const Bytes chunk_;
  const std::size_t most_chunks_;
  std::vector<std::byte*> chunks_;
  std::vector<std::byte*> free_chunks_;
  std::map<TransferId, Passage> passages_;             // first submitted first
  std::deque<TransferId> order_;                       // with bytes not begun: first to begin first
  std::unordered_map<TransferId, Part> device_parts_;  // by StreamTransfers' id
  std::unordered_map<TransferId, std::byte*> leaving_chunks_;  // still read by a copy in
  std::unordered_map<TransferId, TransferId> disk_parts_;      // the disk's id -> passage
  TransferId last_id_ = 0;

  std::mutex landed_mutex_;
  std::condition_variable landed_changed_;
  std::vector<Landed> landed_;
  int on_disk_ = 0;  // parts that the disk has and has not told of
};

}  // namespace spillway::runtime
