// SPDX-License-Identifier: Apache-2.0
// The touches of a step, by op and by storage, and the gaps in between.
//
//   op              0     1     2     3     4
//   touches of op   a b   b c   a c   a     b        one *touch* per (op, storage), in op order
//   chain of a      0 ----------> 4 -> 6 . . . . >    next_touch; after the last one it goes on in
//                                                     the next step where the storage lives on
//
// A touch is an op's read, write or creation of a storage: the storage must be resident while the
// op runs. Freeing alone is no touch. The *gap* after a touch is the idle stretch up to the next
// one, and is named by the touch it follows. Storages alive across the end of the step have a gap
// that wraps around it; `continues` pairs are followed, so that its end may belong to another id.
//
// Positions are 32-bit rows of flat columns. Units: bytes, ops. A value, built once in linear time;
// any thread may read it. The trace must be valid.
//
// Source: liveness records of SuperNeurons (Wang et al. 2018), access lists of Capuchin (Peng et
// al. 2020).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// A row: of an op, a storage or a touch.
using Row = std::uint32_t;
inline constexpr Row kNoRow = std::numeric_limits<Row>::max();

/// The use of one storage by one op.
struct Touch {
  Row storage = 0;
  bool reads : 1 = false;
  bool writes : 1 = false;  ///< creation included
  bool creates : 1 = false;
};

class AccessTable {
 public:
  explicit AccessTable(const Trace& trace);

  [[nodiscard]] Row ops() const { return static_cast<Row>(op_first_.size() - 1); }
  [[nodiscard]] Row storages() const { return static_cast<Row>(bytes_.size()); }
  [[nodiscard]] Row touches() const { return static_cast<Row>(touches_.size()); }

  [[nodiscard]] const Touch& touch(Row row) const { return touches_[row]; }
  /// The op of a touch.
  [[nodiscard]] Row op_of(Row touch) const { return touch_op_[touch]; }
  /// The rows [first, last) of the touches of an op.
  [[nodiscard]] Row first_touch_of_op(Row op) const { return op_first_[op]; }
  [[nodiscard]] Row last_touch_of_op(Row op) const { return op_first_[op + 1]; }

  /// The next (previous) touch of the same id within the step; kNoRow at the ends.
  [[nodiscard]] Row next_touch(Row touch) const { return next_[touch]; }
  [[nodiscard]] Row previous_touch(Row touch) const { return previous_[touch]; }
  /// The first (last) touch of a storage in the step; kNoRow where there is none.
  [[nodiscard]] Row first_touch(Row storage) const { return first_[storage]; }
  [[nodiscard]] Row last_touch(Row storage) const { return last_[storage]; }

  [[nodiscard]] std::uint64_t bytes(Row storage) const { return bytes_[storage]; }
  /// The op that creates it; kNoRow where it is alive before the step.
  [[nodiscard]] Row creator(Row storage) const { return creator_[storage]; }
  /// The op that frees it; kNoRow where it is alive after the step.
  [[nodiscard]] Row freed_by(Row storage) const { return freed_by_[storage]; }
  /// The storages that an op frees.
  [[nodiscard]] std::span<const Row> frees(Row op) const {
    return std::span(freed_).subspan(freed_first_[op], freed_first_[op + 1] - freed_first_[op]);
  }
  /// The id that the storage has in the next (had in the previous) step: itself where persistent;
  /// kNoRow where it does not live on.
  [[nodiscard]] Row successor(Row storage) const { return successor_[storage]; }
  [[nodiscard]] Row predecessor(Row storage) const { return predecessor_[storage]; }
  /// Whether it is left over from the step before and freed by this one before any op touches it:
  /// its bytes are of no use any more.
  [[nodiscard]] bool only_freed(Row storage) const {
    return predecessor(storage) != kNoRow && first_touch(storage) == kNoRow &&
           freed_by(storage) != kNoRow;
  }

  /// Bytes of all storages alive while an op runs, its workspace included.
  [[nodiscard]] std::uint64_t alive(Row op) const { return alive_[op]; }
  /// The op beside which most is alive.
  [[nodiscard]] Row op_with_most_alive() const { return op_with_most_alive_; }
  /// Bytes the op needs at once: what it touches, and its workspace.
  [[nodiscard]] std::uint64_t working_set(Row op) const { return working_set_[op]; }
  /// Workspace of the op as recorded.
  [[nodiscard]] std::uint64_t workspace(Row op) const { return workspace_[op]; }

 private:
  void collect(const Trace& trace);
  void link();
  void measure();

  std::vector<Touch> touches_;
  std::vector<Row> touch_op_, op_first_, next_, previous_;
  std::vector<Row> freed_, freed_first_;
  std::vector<Row> first_, last_, creator_, freed_by_, successor_, predecessor_;
  std::vector<std::uint64_t> bytes_, alive_, working_set_, workspace_;
  Row op_with_most_alive_ = 0;
};

/// The storage a gap's fetch brings back, and whether it is in the next step.
struct GapEnd {
  Row storage = kNoRow;  ///< kNoRow: nothing touches it again
  Row touch = kNoRow;
  bool wraps = false;
};
GapEnd end_of_gap(const AccessTable& table, Row touch);

}  // namespace spillway::planning
