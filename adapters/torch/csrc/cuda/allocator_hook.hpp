// SPDX-License-Identifier: Apache-2.0
// torch's allocator for graphics cards, with some of its virtual functions replaced.
//
//     torch -> the object -> its table, copied: allocate, free, record_stream, ... -> CardMemory
//                              all others                                         -> torch's own
//
// The live object is changed and none put in its place, since torch registers it in several places
// and later minors add functions to it. To torch's own go:
//
//     at most kNativeSize     they share segments there
//     while a pool is open    graphs that are captured, torch.cuda.MemPool
//     other cards             one is managed
//
// Frees go by address, whoever asks. Blocks from before are torch's own until they are freed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "torch_headers.hpp"

namespace spillway::torch::cuda {

/// The memory of one card. Any thread.
class CardMemory {
 public:
  struct Block {
    void* address;
    std::size_t bytes;
  };
  struct Use {
    std::int64_t allocated;
    std::int64_t peak_allocated;
    std::int64_t reserved;
    std::int64_t peak_reserved;
  };

  virtual ~CardMemory() = default;
  CardMemory(const CardMemory&) = delete;
  CardMemory& operator=(const CardMemory&) = delete;

  /// For work of the stream, a handle of the driver's; null is the default one. Throws c10::Error.
  virtual void* allocate(std::size_t bytes, void* stream) = 0;
  virtual void free(void* pointer) noexcept = 0;
  [[nodiscard]] virtual bool owns(const void* pointer) const = 0;
  /// That a pointer of ours lies in.
  [[nodiscard]] virtual Block block_at(const void* pointer) const = 0;
  virtual void record_stream(const void* pointer, void* stream) = 0;
  /// Work of another card is about to reach this card's memory.
  virtual void allow_peer(int card) = 0;
  /// A copy between memory of this card and of another, as cudaMemcpyPeerAsync makes it, whose
  /// error it returns. Cards are numbered as the process sees them.
  virtual int copy_between_cards(void* to, int to_card, const void* from, int from_card,
                                 std::size_t bytes, void* stream) = 0;
  virtual void release_idle() = 0;
  virtual void reset_peak() = 0;
  /// The first memory was asked for by a thread that may be inside an op which nobody saw.
  virtual void began_unseen() = 0;
  /// A graph may be captured from now on, or a program use a pool of its own.
  virtual void pool_opens() = 0;
  /// Whoever opened it has no more of it, also where `pool_opens` threw.
  virtual void pool_closes() noexcept = 0;
  /// torch's own pool may hold more since an allocation that has just ended.
  virtual void pool_grew() = 0;
  [[nodiscard]] virtual Use use() const = 0;

 protected:
  CardMemory() = default;
};

inline constexpr std::size_t kNativeSize = std::size_t{1} << 20;
/// torch's pool takes so much at once for them (kSmallBuffer, c10/core/AllocatorConfig.h).
inline constexpr std::size_t kNativeSegment = std::size_t{2} << 20;

/// Marks a DataPtr as CardMemory's, and frees it.
c10::DeleterFnPtr card_deleter();

/// torch's allocator uses `memory` for that card from now on, for the life of the process. Throws
/// UserError, and changes nothing, where this torch or its allocator is not what this library
/// knows. A block of 2 MiB is allocated to see that it works.
void install_allocator_hook(CardMemory& memory, c10::Device card);

/// What a function returns that begins, or has nothing to begin. Not 0, which a function of Python
/// that was interrupted returns.
inline constexpr int kGoesOn = 1;

/// Until `install_allocator_hook`, torch's allocator calls `begin` before it gives memory of any
/// card out, and gives none unless that returns kGoesOn. Then it is as it was, or `memory`'s. Asks
/// nothing of the card. Throws UserError as `install_allocator_hook` does.
void await_first_use(int (*begin)());

/// As torch.cuda.is_available(), but false with a torch for other cards than NVIDIA's.
bool torch_has_a_card();

/// Throws UserError if that is impossible; asks nothing of the card.
void require_allocator();

/// The calling thread's current stream on the card, a handle of the driver's.
void* current_stream(c10::Device card);

/// What torch's own pool holds on the card, if that may have changed since the last call. Any
/// thread.
std::optional<std::size_t> changed_pool();

/// Whether graphs may be being captured, or a program uses a pool of its own.
bool pool_is_open();

}  // namespace spillway::torch::cuda
