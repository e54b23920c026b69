// SPDX-License-Identifier: Apache-2.0
// The mover's books: what moved, what is on its way out or away now, and what failed.
//
//     record.leaving, record.away   of one storage; their sums are here, and change with them
//
// Bytes of `leaving` and `away` are room on the device; those of the counters are of storages.
// Under the engine's lock, except `away`. Throws only std::bad_alloc.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "spillway/runtime/move_tally.hpp"

namespace spillway::runtime {

/// Counters of what moved. Bytes are of storages, not of pages.
struct MoveStatistics {
  Bytes evicted{};        ///< left the device tier with a copy made
  Bytes clean_evicted{};  ///< left without one: an identical copy existed
  Bytes fetched{};        ///< came back by a copy
  Bytes recalled{};       ///< came back before anyone had taken the pages, without one
  std::uint64_t evictions = 0;
  std::uint64_t fetches = 0;
  std::uint64_t recalls = 0;
  Bytes recomputed{};  ///< came back by running again the ops that made it
  std::uint64_t recomputations = 0;
  std::chrono::nanoseconds recomputing{};  ///< time that those took the program's threads
  std::uint64_t failed_copies = 0;
  std::uint64_t undeclared_writes = 0;  ///< verify: written by an op that did not say so
  std::uint64_t checksums_compared = 0;
  std::chrono::nanoseconds copied_at_once{};  ///< time of copies that everybody waited for
};

class MoveLedger {
 public:
  /// A copy of a storage that leaves begins; it has so much room.
  void begin_leaving(StorageRecord& record, Bytes room) {
    record.leaving = room;
    leaving_ += room;
  }
  /// It has left, or stays.
  void end_leaving(StorageRecord& record) { leaving_ -= std::exchange(record.leaving, {}); }
  /// It is away, and would take so much room.
  void begin_away(StorageRecord& record, Bytes room) {
    record.away = room;
    away_ += room.count;
  }
  /// It got its room again, or died.
  void end_away(StorageRecord& record) { away_ -= std::exchange(record.away, {}).count; }

  void evicted(const StorageRecord& record) {
    statistics_.evicted += record.bytes;
    ++statistics_.evictions;
    tally_.add(record.made_by.load(), record.bytes);
  }
  void evicted_clean(const StorageRecord& record) { statistics_.clean_evicted += record.bytes; }
  void fetched(const StorageRecord& record) {
    statistics_.fetched += record.bytes;
    ++statistics_.fetches;
    tally_.add(record.made_by.load(), record.bytes);
  }
  void recalled(const StorageRecord& record) {
    statistics_.recalled += record.bytes;
    ++statistics_.recalls;
  }
  void recomputed(const StorageRecord& record, TimeNs time) {
    statistics_.recomputed += record.bytes;
    ++statistics_.recomputations;
    statistics_.recomputing += std::chrono::nanoseconds(time);
  }
  void copied_at_once(std::chrono::nanoseconds time) { statistics_.copied_at_once += time; }
  void compared_checksum() { ++statistics_.checksums_compared; }
  void found_undeclared_write() { ++statistics_.undeclared_writes; }
  void reported_failure() { ++statistics_.failed_copies; }
  /// A copy to a slower tier ended by itself.
  void copy_out_ended(bool succeeded) {
    failures_in_a_row_ = succeeded ? 0 : failures_in_a_row_ + 1;
  }

  /// Why what failed last did; empty once a copy succeeded.
  void set_failure(std::string text) { failure_ = std::move(text); }
  [[nodiscard]] const std::string& failure() const { return failure_; }

  [[nodiscard]] const MoveStatistics& statistics() const { return statistics_; }
  [[nodiscard]] const MoveTally& tally() const { return tally_; }
  [[nodiscard]] Bytes leaving() const { return leaving_; }
  /// Any thread.
  [[nodiscard]] Bytes away() const { return {away_.load(std::memory_order_relaxed)}; }
  /// Copies to slower tiers that failed since one succeeded.
  [[nodiscard]] std::uint64_t failures_in_a_row() const { return failures_in_a_row_; }

 private:
  MoveStatistics statistics_;
  MoveTally tally_;
  Bytes leaving_{};
  std::atomic<std::uint64_t> away_{0};
  std::string failure_;
  std::uint64_t failures_in_a_row_ = 0;
};

}  // namespace spillway::runtime
