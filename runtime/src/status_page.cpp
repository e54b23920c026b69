// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/status_page.hpp"

#include <unistd.h>

namespace spillway::runtime {
namespace {

constexpr const char* kName = "spillway-status";

}  // namespace

StatusMapping StatusMapping::create() {
  StatusMapping mapping;
  mapping.shared_ = SharedPage::create(kName, sizeof(StatusPage));
  mapping.page()->version.store(kStatusVersion, std::memory_order_release);
  return mapping;
}

StatusMapping StatusMapping::open(const std::string& path) {
  StatusMapping mapping;
  mapping.shared_ = SharedPage::open(path, kName, sizeof(StatusPage));
  if (mapping.page() == nullptr ||
      mapping.page()->version.load(std::memory_order_acquire) != kStatusVersion) {
    return {};
  }
  return mapping;
}

StatusSlot* StatusMapping::claim_slot() const {
  if (page() == nullptr) return nullptr;
  const auto self = static_cast<std::uint32_t>(::getpid());
  for (StatusSlot& slot : page()->slots) {
    if (slot.pid.load(std::memory_order_relaxed) == self) return &slot;
  }
  for (StatusSlot& slot : page()->slots) {
    std::uint32_t free = 0;
    if (slot.pid.compare_exchange_strong(free, self, std::memory_order_relaxed)) return &slot;
  }
  return nullptr;
}

}  // namespace spillway::runtime
