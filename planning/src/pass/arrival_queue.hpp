// SPDX-License-Identifier: Apache-2.0
// Tells how long the copies of all that is away can wait.
//
//     position        4        9     12          copies are made in the order in which they
//     deadline        |        |     |           are needed, one after the other; so the first
//     copies      [ a ]    [ b ][ c ]            must begin at the least, over all positions, of
//                 ^ latest start                 (deadline - sum of the copies up to it)
//
// A segment tree over positions: a change or a question takes O(log n). Units: ns.
#pragma once

#include <cstddef>
#include <vector>

#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning {

class ArrivalQueue {
 public:
  /// `deadlines[p]`: when the op at position `p` begins if nothing stalls.
  explicit ArrivalQueue(const std::vector<double>& deadlines);

  void add(Row position, double duration);
  void remove(Row position, double duration);
  /// When the first copy must begin at the latest; infinite if nothing is away.
  [[nodiscard]] double latest_start() const { return nodes_[1].latest; }
  /// How much later than `now` the copies could begin if one of `duration` were needed at
  /// `position` as well: negative where they could not be in time.
  [[nodiscard]] double slack_with(Row position, double duration, double now) const;

 private:
  struct Node {
    double sum = 0;
    double latest = 0;  // of the first copy of the node's positions
    std::size_t copies = 0;
  };

  void update(Row position, double duration, int copies);
  static Node join(const Node& left, const Node& right);

  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;
  std::vector<double> deadlines_;
};

}  // namespace spillway::planning
