// SPDX-License-Identifier: Apache-2.0
// The ops of a step that use each storage, and the stretches in which none does.
//
//   op          0      1      2      3      4
//   weight      use    .      .      use    .       idle: op 1 to 3, and op 4 to the next step's 0
//   hidden             use    .      .      use f   idle: op 2 to 4
//
// A step repeats, so what outlives it is idle across its end, under the name that it has in the
// next step. An op uses what it creates, reads and writes; to free is no use. Linear in the trace.
// Immutable, so that several threads may ask.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/planning/analysis/access_table.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// A stretch of the step in which no op uses a storage.
struct IdleStretch {
  std::size_t from = 0;   ///< the op behind the use before it
  std::size_t to = 0;     ///< the op that uses it next; of the next step where it is not behind
  bool over_end = false;  ///< the end of the step lies in it
  TimeNs ns = 0;          ///< of computing

  bool operator==(const IdleStretch&) const = default;
};

class StorageUses {
 public:
  explicit StorageUses(const Trace& trace);

  /// The op that makes it; nothing where it was made before the step.
  [[nodiscard]] std::optional<OpIndex> maker(StorageId storage) const;
  /// The ops that use it, ascending.
  [[nodiscard]] std::span<const std::size_t> of(StorageId storage) const;
  /// The stretch that an action attached to op `at` falls into. Without a use before or behind it
  /// begins where the storage does and ends where it is freed.
  [[nodiscard]] IdleStretch around(StorageId storage, OpIndex at) const;
  /// The longest in which it could be away, under one name: it ends with a use, and across the end
  /// of the step where the storage is persistent. Nothing where it is used by op after op.
  [[nodiscard]] std::optional<IdleStretch> longest(StorageId storage) const;
  /// Most bytes alive at once during it, workspace included, if nothing leaves the device.
  [[nodiscard]] Bytes most_alive(const IdleStretch& stretch) const;

 private:
  [[nodiscard]] TimeNs between(std::size_t from, std::size_t to) const {
    return begin_[to] - begin_[from];
  }
  [[nodiscard]] TimeNs before_first(StorageId storage) const;
  [[nodiscard]] TimeNs behind_last(StorageId storage) const;

  /// Where it begins: 0 where it was made before the step. And the op that frees it, the number of
  /// ops where it outlives the step.
  [[nodiscard]] std::size_t begins(StorageId storage) const;
  [[nodiscard]] std::size_t freed(StorageId storage) const;
  [[nodiscard]] bool is_persistent(StorageId storage) const;

  planning::AccessTable table_;
  std::vector<std::size_t> offsets_;  // of each storage's row of uses_
  std::vector<std::size_t> uses_;
  std::vector<TimeNs> begin_;  // of each op without stalls, and the end
};

}  // namespace spillway::tools
