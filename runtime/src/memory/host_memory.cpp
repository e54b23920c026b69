// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/host_memory.hpp"

#include <cstdlib>

#include "spillway/base/fault.hpp"

namespace spillway::runtime {

namespace {

Bytes pages_for(Bytes bytes) { return round_up(bytes, HostMemory::kPage.count); }

}  // namespace

std::byte* HostMemory::allocate(Bytes bytes) {
  const Bytes pages = pages_for(bytes);
  auto promise = budget_.try_reserve(pages, Overbooking::kRefuse);
  if (!promise || fault_at("host.allocate")) return nullptr;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage.count, pages.count));
  if (memory != nullptr) promise->spend(pages);
  return memory;
}

HostPages HostMemory::give_back(std::byte* memory, Bytes bytes) noexcept {
  budget_.give_back(pages_for(bytes));
  return HostPages(memory);
}

bool HostMemory::could_hold(Bytes bytes) const {
  return budget_.limit().count != 0 && pages_for(bytes) <= budget_.limit();
}

Bytes HostMemory::short_by(Bytes bytes) const {
  return saturating_sub(budget_.used() + pages_for(bytes), budget_.limit());
}

}  // namespace spillway::runtime
