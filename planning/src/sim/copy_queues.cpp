// SPDX-License-Identifier: Apache-2.0
#include "copy_queues.hpp"

#include <utility>

namespace spillway::planning::sim {

std::optional<LinkKind> CopyQueues::first_to_end() const {
  std::optional<LinkKind> first;
  TimeNs end = kNever;
  for (const LinkKind link : kLinks) {
    if (end_of(link) >= end) continue;
    end = end_of(link);
    first = link;
  }
  return first;
}

CopyQueues::Carried CopyQueues::finish(LinkKind link) {
  return std::exchange(lanes_[index_of(link)].carried, Carried{});
}

}  // namespace spillway::planning::sim
