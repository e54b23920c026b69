// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "spillway/testing/device/capture_device.hpp"

namespace spillway::testing {

/// The card behind the libraries that stand in for NVIDIA's: one in a process, on threads, made at
/// the first call. It is never destroyed, since others call in while the process ends.
///
///     STAND_IN_MIB            its memory (1024)
///     STAND_IN_CONTEXT_MIB    of that, what the context takes (0)
///     STAND_IN_LIBRARIES_MIB  and what libraries take that launches load (0)
///     STAND_IN_DELAY_US       longest delay before a task (200)
///     STAND_IN_SEED           of the delays (1)
///     STAND_IN_ACCOUNT        a file: processes that name the same one share the memory
CaptureDevice& stand_in_card();

/// STAND_IN_CARDS=apart or peers: there is a second card, which reaches the first's memory or not.
/// It has memory that is allocated, out of the first's, and copies, in the same streams.
enum class SecondCard : std::uint8_t { kNone, kApart, kPeer };
SecondCard second_card();
inline int card_count() { return second_card() == SecondCard::kNone ? 1 : 2; }
inline bool is_card(int card) { return card >= 0 && card < card_count(); }

/// A kernel is about to be launched: the first ones load libraries. False where the card has no
/// memory for them.
bool load_libraries();

/// The context that is current in the calling thread, as CUDA counts: the card's after a call that
/// makes it so, or any of the runtime's that use the card; 0, for none, in a new thread. In the
/// second card's the driver refuses what is the first's.
std::uintptr_t& current_context();
inline constexpr std::uintptr_t kCardsContext = 0x1000;
inline constexpr std::uintptr_t kSecondCardsContext = 0x3000;
constexpr std::uintptr_t context_of(int card) {
  return card == 0 ? kCardsContext : kSecondCardsContext;
}
/// -1: it is no card's.
constexpr int card_of(std::uintptr_t context) {
  if (context == kCardsContext) return 0;
  return context == kSecondCardsContext ? 1 : -1;
}

/// Between the handles of streams that CUDA's functions give out. As CUDA's are: even, and neither
/// 1 nor 2, by which programs may name stream 0.
inline constexpr std::uintptr_t kStreamStep = 16;
inline runtime::DeviceStream stream_of_handle(const void* handle) {
  return runtime::DeviceStream{reinterpret_cast<std::uintptr_t>(handle) / kStreamStep};
}
inline void* handle_of(runtime::DeviceStream stream) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(stream) * kStreamStep);
}

}  // namespace spillway::testing
