// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace spillway::runtime {

struct StorageRecord;

/// What the engine asks of the adapter that owns the storages. `owner` is the handle the adapter
/// bound to the record.
class Framework {
 public:
  virtual ~Framework() = default;

  /// False if the storage can't be evicted now: its memory is no longer the record's, or is
  /// exported to foreign code. Called with the engine's lock held: no lock, no allocation from the
  /// engine.
  virtual bool may_evict(void* owner, const StorageRecord& record) noexcept = 0;

  /// Makes the framework's accessors refuse with `reason` until `grant`. Same terms.
  virtual void revoke(void* owner, const StorageRecord& record,
                      const std::string& reason) noexcept = 0;
  virtual void grant(void* owner, const StorageRecord& record) noexcept = 0;

  /// The storage died: the handle is no longer used. Called without the lock.
  virtual void release(void* owner) noexcept = 0;
};

}  // namespace spillway::runtime
