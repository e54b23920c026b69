// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "spillway/runtime/exec/making.hpp"
#include "spillway/runtime/memory/host_room.hpp"

namespace spillway::runtime {

/// The remains of storages under the engine's lock, to be destroyed once it was let go of: the
/// framework may take locks of its own to destroy a handle, and the kernel takes its time to free
/// large memory. Guarded by that lock.
struct Remains {
  std::vector<void*> owners;     ///< handles of storages that died, for Framework::release
  std::vector<HostPages> pages;  ///< copies on the host that are needed no more
  std::vector<std::shared_ptr<const Making>> makings;  ///< of bytes that are no more

  [[nodiscard]] bool empty() const { return owners.empty() && pages.empty() && makings.empty(); }
};

}  // namespace spillway::runtime
