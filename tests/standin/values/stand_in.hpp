// SPDX-License-Identifier: Apache-2.0
// Work for the current stream of the stand-in card, from within PyTorch.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/stand_in.h"

namespace spillway::standin {

/// What the preloaded stand-in exports, found by name. Throws c10::Error if it is not there.
class Functions {
 public:
  Functions();
  [[nodiscard]] std::ptrdiff_t distance() const { return distance_; }
  int launch(void* stream, const std::vector<StandInAccess>& reached, void (*work)(void*),
             void (*drop)(void*), void* argument) const;
  void lose(const std::string& why) const;

 private:
  decltype(&stand_in_launch) launch_;
  decltype(&stand_in_lose) lose_;
  std::ptrdiff_t distance_;
};
const Functions& functions();

/// Whether two cards reach each other's memory.
bool cards_are_peers();

/// Enqueues work on the current stream and returns, as a launch does. It touches of the card's
/// memory `reached` alone. If it throws, the card is lost. Throws c10::Error where the card
/// refuses.
void enqueue(const std::string& op, const std::vector<StandInAccess>& reached,
             std::function<void()> work);

/// Does it in the current stream and waits. Throws what it throws.
void run_and_wait(const std::string& op, const std::vector<StandInAccess>& reached,
                  const std::function<void()>& work);

}  // namespace spillway::standin
