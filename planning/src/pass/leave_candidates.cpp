// SPDX-License-Identifier: Apache-2.0
#include "pass/leave_candidates.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace spillway::planning::pass {
namespace {

// Storages of one class differ in size by less than four times; the last one has all above 64 GiB.
constexpr std::size_t kBitsPerClass = 2;
constexpr std::size_t kSizeClasses = 19;

// Furthest next use first, what cannot leave costs a look and few are tried; least recently used
// first, the first that can leave does, however many before it cannot.
constexpr std::size_t kMostSeenByNextUse = 64;
constexpr std::size_t kMostSeenByLastUse = 4096;

double rank(LeaveOrder order, const PassItem& item) {
  return order == LeaveOrder::kFurthest ? static_cast<double>(item.next)
                                        : -static_cast<double>(item.free_from);
}

// Cheapest per byte first in steps of half a power of two; within one, furthest next use first.
double cheapest_first(double ns_per_byte, Row next) {
  const double step = std::floor(2 * std::log2(std::max(ns_per_byte, 1e-12)));
  return step - static_cast<double>(next) * 1e-10;
}

}  // namespace

LeaveCandidates::LeaveCandidates(const StepModel& model, LeaveOrder order, bool by_size)
    : model_(model),
      order_(order),
      most_seen_(order == LeaveOrder::kFurthest ? kMostSeenByNextUse : kMostSeenByLastUse),
      by_use_(by_size ? kSizeClasses : 1) {}

std::size_t LeaveCandidates::size_class(Row storage) const {
  if (by_use_.size() == 1) return 0;
  const auto bits = static_cast<std::size_t>(std::bit_width(model_.table.bytes(storage)));
  return std::min(bits / kBitsPerClass, by_use_.size() - 1);
}

void LeaveCandidates::offer(Row storage, PassItem& item, bool may_recompute) {
  ++item.version;
  by_use_[size_class(storage)].push({rank(order_, item), {storage, item.version}});
  if (!may_recompute) return;
  const double bytes = static_cast<double>(std::max<std::uint64_t>(model_.table.bytes(storage), 1));
  by_recomputation_.push({cheapest_first(model_.recompute_share_ns(storage) / bytes, item.next),
                          {storage, item.version}});
}

}  // namespace spillway::planning::pass
