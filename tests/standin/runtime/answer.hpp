// SPDX-License-Identifier: Apache-2.0
// How the runtime's functions end, and what a function does that the stand-in has not.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

#include "spillway/testing/device/stand_in_card.hpp"

namespace spillway::testing {

/// The error of a call, which cudaGetLastError tells too. The numbers of runtime and driver are the
/// same for what a card can answer.
cudaError_t answer(cudaError_t error);
inline cudaError_t answer(runtime::DeviceStatus status) {
  // The runtime makes one current where a card is used.
  if (current_context() == 0) current_context() = kCardsContext;
  return answer(static_cast<cudaError_t>(status.code));
}

/// Ends the process: to go on would be to calculate with what was never there.
[[noreturn]] void unmodelled(const char* function, const char* detail = "");

/// The card whose context is current, or which a call would make so.
inline int current_card() { return std::max(card_of(current_context()), 0); }

/// Whether work of that card may read and write there.
bool current_card_reaches(const void* memory, std::size_t bytes);
/// What is allocated on the second card, out of the first's memory.
std::size_t second_cards_bytes();

inline runtime::DeviceStream stream_of(cudaStream_t stream) { return stream_of_handle(stream); }
inline runtime::DeviceAddress address_of(const void* pointer) {
  return runtime::DeviceAddress{reinterpret_cast<std::uintptr_t>(pointer)};
}

}  // namespace spillway::testing
