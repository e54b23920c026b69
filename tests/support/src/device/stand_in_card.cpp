// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/stand_in_card.hpp"

#include <cstdlib>

namespace spillway::testing {

using runtime::PagesHandle;

namespace {

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == 0 ? otherwise : std::strtoull(text, nullptr, 10);
}

}  // namespace

ThreadDevice& stand_in_card() {
  // Addresses are never given twice, so there are many.
  static auto* const kCard = new ThreadDevice(
      {.memory = kMiB * number("STAND_IN_MIB", 1024),
       .granule = std::uint64_t{2} << 20,
       .addresses = kGiB * 4096,
       .lockable = kGiB * 4,
       .seed = number("STAND_IN_SEED", 1),
       .longest_delay_us = static_cast<unsigned>(number("STAND_IN_DELAY_US", 200))});
  static const bool kHasContext = [] {
    PagesHandle context{};
    const Bytes bytes = kMiB * number("STAND_IN_CONTEXT_MIB", 0);
    return bytes.count != 0 && kCard->create(bytes, context).done();
  }();
  static_cast<void>(kHasContext);
  return *kCard;
}

}  // namespace spillway::testing
