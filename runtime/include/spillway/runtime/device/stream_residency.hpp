// SPDX-License-Identifier: Apache-2.0
// Storages of a card that leave for host memory and come back, beside the streams that use them.
//
//     A pin covers the launch, a fence covers the execution.
//
//   use       pin; brings the bytes in if they are away; the stream waits once for a copy that is
//             still coming
//   used      after the launch: unpin, note the stream and the moment. No event, no wait
//   evict     pins are 0: OUT waits, on the device, for all uses; then it copies. The host goes on.
//             A read meanwhile has the bytes stay, a write also spoils the copy: neither waits
//   advance   the host has seen the end of OUT: pages leave the block, or the bytes stay
//   fetch     pages of its own, idle since the host saw it, so the copy starts at once. The storage
//             is Resident when the copy is *issued*; each stream waits for it before its first use
//   die       its block may be anyone's: on its stream at once, on others after its fence; its
//   pages
//             leave the block when the host has seen the fence
//
// Where the bytes are, residency's state machine decides; this carries out its actions. The host
// waits in make_room alone.
//
// Errors: no room is an answer, a failing device a DeviceFailure, anything else a broken contract.
// Not thread-safe: guarded by its owner's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/residency/residency_machine.hpp"
#include "spillway/runtime/device/freed_blocks.hpp"
#include "spillway/runtime/device/pinned_host_memory.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_transfers.hpp"
#include "spillway/runtime/device/vmm_pages.hpp"

namespace spillway::runtime {

enum class DeviceUse : bool { kRead, kWrite };

class StreamResidency {
 public:
  /// All outlive it.
  StreamResidency(VmmPages& pages, PinnedHostMemory& host, StreamTransfers& transfers,
                  StreamClock& clock);
  StreamResidency(const StreamResidency&) = delete;
  StreamResidency& operator=(const StreamResidency&) = delete;

  /// A new storage for work of `stream`, its content undefined. Nothing: there is no room.
  std::optional<StorageId> create(Bytes bytes, DeviceStream stream);
  /// Work of `stream` is about to be launched that uses the storage: its address, and a pin until
  /// `used`. Nothing: there is no room to bring it in, and it is not pinned.
  std::optional<DeviceAddress> use(StorageId id, DeviceStream stream, DeviceUse use);
  /// The work was launched.
  void used(StorageId id, DeviceStream stream);

  /// Begins to move it to the host. False if it cannot leave now: it is pinned or moving, or host
  /// memory has no room.
  bool evict(StorageId id);
  /// Begins to bring it back ahead of need. False if it is not away, or there is no room.
  bool prefetch(StorageId id);
  /// Takes a prefetch back. False if its copy is issued already.
  bool give_up(StorageId id);
  /// The program needs it no more. It is not pinned.
  void die(StorageId id);

  /// The work of the watcher: issues copies, ends evictions, takes back pages.
  void advance();
  /// Gets pages that are on their way out, waiting on the host if need be. False: there are none,
  /// and something has to be evicted first.
  bool make_room();

  [[nodiscard]] residency::ResidencyState state(StorageId id) const { return machine_.state(id); }
  [[nodiscard]] const residency::Statistics& statistics() const { return machine_.statistics(); }

 private:
  struct Storage {
    DeviceAddress block{};
    Bytes bytes{};
    std::byte* host = nullptr;
    Fence uses;                    // of the block: by ops, and by copies into it
    Fence arrival;                 // of what a stream has to wait for before its first use
    std::uint64_t arrived_on = 0;  // streams that are ordered after it
    Fence host_uses;               // of the copy on the host: by fetches
    unsigned pins = 0;
    std::optional<TransferId> copy;  // that is queued, or leaves
    bool left_whole = false;         // its pages had its bytes when it left them
    bool intact = false;             // a fetch finds the bytes in place
    bool dead = false;
  };

  void on(residency::EventKind kind, StorageId id, Tier tier = Tier::kDevice);
  void carry_out(const residency::Action& action);
  void start_copy(StorageId id, Storage& storage, Direction direction);
  void free_device(Storage& storage);
  void free_host(Storage& storage);
  /// Pages for a storage that is away, and Use or Write of it.
  bool bring_in(StorageId id, Storage& storage, residency::EventKind event);
  void issued(StorageId id, Storage& storage, const Fence& fence);
  void failed(StorageId id, Storage& storage);
  bool open_block(Bytes bytes, DeviceStream stream, Storage& storage);

  VmmPages& pages_;
  PinnedHostMemory& host_;
  StreamTransfers& transfers_;
  StreamClock& clock_;
  residency::ResidencyMachine machine_;
  FreedBlocks freed_;
  std::unordered_map<StorageId, Storage> storages_;
  std::unordered_map<TransferId, StorageId> copies_;
  std::vector<CopyNews> news_;
  std::vector<residency::Action> actions_;
};

}  // namespace spillway::runtime
