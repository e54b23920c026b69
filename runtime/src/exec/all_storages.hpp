// SPDX-License-Identifier: Apache-2.0
// Moves all storages at once: when the engine stops, when ops are no longer seen, and in fuzz mode.
// Under the engine's lock, which is let go of while copies are awaited: storages may be
// made and die meanwhile.
#pragma once

#include "demands.hpp"
#include "departures.hpp"
#include "engine_lock.hpp"
#include "freed_storages.hpp"
#include "recomputation.hpp"
#include "spillway/runtime/exec/move_rules.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "waits.hpp"

namespace spillway::runtime {

class AllStorages {
 public:
  AllStorages(Mover& mover, const MoveRules& rules, FreedStorages& freed, Waits& waits,
              Departures& departures, Demands& demands, Recomputation& recomputation)
      : mover_(mover),
        rules_(rules),
        freed_(freed),
        waits_(waits),
        departures_(departures),
        demands_(demands),
        recomputation_(recomputation) {}

  /// Fuzz mode: everything leaves that no op uses.
  void evict(EngineLock& lock);
  /// Everything comes back, except what cannot be read.
  void bring_back(EngineLock& lock);
  /// Slower copies go: from now on writes that nobody shows do no harm.
  void drop_copies();
  /// Whether nothing is away, or on its way.
  [[nodiscard]] bool are_here() const;

 private:
  bool make(StorageRecord& record, EngineLock& lock);

  Mover& mover_;
  const MoveRules& rules_;
  FreedStorages& freed_;
  Waits& waits_;
  Departures& departures_;
  Demands& demands_;
  Recomputation& recomputation_;
};

}  // namespace spillway::runtime
