// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/tier_set.hpp"
#include "spillway/runtime/settings.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::runtime {

/// The resources that an engine needs to start with the settings.
struct StartResources {
  Bytes budget{};
  Bytes host_budget{};  ///< zero: no host tier
  // Null where nothing moves.
  std::shared_ptr<Spool> spool;  ///< also null if the present one stays
  std::unique_ptr<Transfers> transfers;
};

/// The resources that the engine holds already.
struct HeldResources {
  Bytes device{};
  bool spool_stays = false;  ///< a spool that holds something keeps its directory and budget
};

/// Looks at memory and disks and sets up transfers, so not under the engine's lock. Throws
/// UserError if a setting can't be honoured.
StartResources start_resources(const Settings& settings, const HeldResources& held, TierSet& tiers);

}  // namespace spillway::runtime
