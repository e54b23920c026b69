// SPDX-License-Identifier: Apache-2.0
#include "pass/arrival_queue.hpp"

#include <algorithm>

#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning {

ArrivalQueue::ArrivalQueue(const std::vector<double>& deadlines) : deadlines_(deadlines) {
  while (leaves_ < std::max<std::size_t>(deadlines.size(), 1)) leaves_ *= 2;
  nodes_.assign(2 * leaves_, Node{0, kNever, 0});
}

ArrivalQueue::Node ArrivalQueue::join(const Node& left, const Node& right) {
  return {left.sum + right.sum, std::min(left.latest, right.latest - left.sum),
          left.copies + right.copies};
}

void ArrivalQueue::update(Row position, double duration, int copies) {
  std::size_t at = leaves_ + position;
  Node& leaf = nodes_[at];
  leaf.copies = copies > 0 ? leaf.copies + 1 : leaf.copies - 1;
  leaf.sum = leaf.copies == 0 ? 0 : leaf.sum + duration;  // no rounding is left behind
  leaf.latest = leaf.copies == 0 ? kNever : deadlines_[position] - leaf.sum;
  for (at /= 2; at > 0; at /= 2) nodes_[at] = join(nodes_[2 * at], nodes_[2 * at + 1]);
}

void ArrivalQueue::add(Row position, double duration) { update(position, duration, 1); }

void ArrivalQueue::remove(Row position, double duration) { update(position, -duration, -1); }

double ArrivalQueue::slack_with(Row position, double duration, double now) const {
  // Copies before `position` are as they were; it and those after it begin `duration` earlier.
  double before = 0;
  double latest = kNever;
  std::size_t at = 1;
  std::size_t low = 0;
  std::size_t size = leaves_;
  while (size > 1) {
    size /= 2;
    if (position < low + size) {
      latest = std::min(latest, nodes_[2 * at + 1].latest - nodes_[2 * at].sum - before - duration);
      at = 2 * at;
    } else {
      before += nodes_[2 * at].sum;
      at = 2 * at + 1;
      low += size;
    }
  }
  const double own = deadlines_[position] - nodes_[at].sum - before - duration;
  return std::min(latest, own) - now;
}

}  // namespace spillway::planning
