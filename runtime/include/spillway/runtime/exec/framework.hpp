// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway::runtime {

struct StorageRecord;

/// The accesses that a storage refuses which is not in memory.
enum class Refusal : std::uint8_t {
  kAll,     ///< every access
  kWriting  ///< not the address for reading, which is good for being noted alone
};

/// A framework's words for the error of an op that does not fit.
struct ShortageWords {
  std::string also_known_as;          ///< its own words for it, which programs look for
  std::vector<std::string> remedies;  ///< what helps with this op, a sentence each
};

/// The engine's requests to the adapter that owns the storages. `owner` is the handle the adapter
/// bound to the record. Called with the engine's lock held is only what decides whether a storage
/// may leave, and what must change with its state: an access between the two would read or write
/// memory that is not the storage's.
class Framework {
 public:
  virtual ~Framework() = default;

  /// False if the storage can't be evicted now: its memory is no longer the record's, or is
  /// exported to foreign code. Called with the engine's lock held: no lock, no allocation from the
  /// engine.
  virtual bool may_evict(void* owner, const StorageRecord& record) noexcept = 0;

  /// Makes the framework's accessors refuse with `reason` until `grant`, or as the next call says.
  /// Same terms.
  virtual void revoke(void* owner, const StorageRecord& record, const std::string& reason,
                      Refusal refusal) noexcept = 0;
  virtual void grant(void* owner, const StorageRecord& record) noexcept = 0;

  /// The storage has the memory at `to` from now on, and nobody the address before. False if
  /// somebody may know that: then nothing has changed. Same terms.
  virtual bool move(void* /*owner*/, const StorageRecord& /*record*/, std::byte* /*to*/) noexcept {
    return false;
  }

  /// The calling thread is about to wait for other threads' ops: lets go of the lock that all of
  /// the framework's threads need now and then (Python's GIL), if this one holds it. Called without
  /// the engine's lock. Null if there was nothing to let go of, else what `run_again` takes.
  virtual void* let_others_run() { return nullptr; }
  /// Takes that lock again. Likewise without the engine's.
  virtual void run_again(void* /*held*/) {}

  /// True once what fills or reads the storage's memory right after the op that made it has handed
  /// it over to the program, and is done. False where nothing shows that. Same terms.
  virtual bool handed_over(void* owner) noexcept {
    static_cast<void>(owner);
    return false;
  }

  /// For the error of `op`, which is empty between ops. Called without the lock.
  virtual ShortageWords shortage_words(const std::string& /*op*/) { return {}; }

  /// The storage died: the handle is no longer used. Called without the lock.
  virtual void release(void* owner) noexcept = 0;
};

}  // namespace spillway::runtime
