// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/device/stand_in_card.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

namespace spillway::testing {
namespace {

// Addresses are never given twice, so there are many.
#ifdef __SANITIZE_THREAD__
constexpr Bytes kAddresses = kGiB * 256;  // it leaves a program no more than a few hundred GiB
#else
constexpr Bytes kAddresses = kGiB * 4096;
#endif

std::string text(const char* variable) {
  const char* const found = std::getenv(variable);
  return found == nullptr ? "" : found;
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const std::string found = text(variable);
  return found.empty() ? otherwise : std::stoull(found);
}

CaptureDevice* make_card() {
  auto* const card = new CaptureDevice(
      {.memory = kMiB * number("STAND_IN_MIB", 1024),
       .granule = std::uint64_t{2} << 20,
       .addresses = kAddresses,
       .lockable = kGiB * 4,
       .seed = number("STAND_IN_SEED", 1),
       .longest_delay_us = static_cast<unsigned>(number("STAND_IN_DELAY_US", 200)),
       .account = text("STAND_IN_ACCOUNT")});
  if (const std::uint64_t context = number("STAND_IN_CONTEXT_MIB", 0); context != 0) {
    runtime::PagesHandle handle{};
    static_cast<void>(card->create(kMiB * context, handle));
  }
  return card;
}

}  // namespace

SecondCard second_card() {
  const std::string wanted = text("STAND_IN_CARDS");
  if (wanted == "peers") return SecondCard::kPeer;
  return wanted == "apart" ? SecondCard::kApart : SecondCard::kNone;
}

std::uintptr_t& current_context() {
  thread_local std::uintptr_t current = 0;
  return current;
}

// As a card's of NVIDIA do: the first product of matrices loads most, others follow.
bool load_libraries() {
  struct Load {
    int launch;
    std::uint64_t share;
  };
  constexpr std::array kLoads{Load{10, 2}, Load{60, 4}, Load{200, 4}};
  static const std::uint64_t mebibytes = number("STAND_IN_LIBRARIES_MIB", 0);
  static std::atomic<int> launches{0};
  const int launch = mebibytes == 0 ? 0 : ++launches;
  const auto* const load = std::ranges::find(kLoads, launch, &Load::launch);
  if (load == kLoads.end()) return true;
  runtime::PagesHandle handle{};
  return stand_in_card().create(kMiB * (mebibytes / load->share), handle).done();
}

CaptureDevice& stand_in_card() {
  static CaptureDevice* const card = make_card();
  return *card;
}

}  // namespace spillway::testing
