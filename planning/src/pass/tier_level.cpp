// SPDX-License-Identifier: Apache-2.0
#include "pass/tier_level.hpp"

#include <vector>

namespace spillway::planning::pass {

TierLevel::TierLevel(std::uint64_t budget, std::uint64_t most_alive, Row ops) : budget_(budget) {
  if (budget > 0 && budget < most_alive) before_op_.emplace(std::vector<std::int64_t>(ops + 1, 0));
}

void TierLevel::add(std::uint64_t bytes, Row at) {
  now_ += bytes;
  if (before_op_) before_op_->add(at, kNoRow, static_cast<std::int64_t>(bytes));
}

void TierLevel::remove(std::uint64_t bytes, Row at) {
  now_ -= bytes;
  if (before_op_) before_op_->add(at + 1, kNoRow, -static_cast<std::int64_t>(bytes));
}

bool TierLevel::has_room(std::uint64_t bytes, Row at) const {
  if (!before_op_) return now_ + bytes <= budget_;
  return before_op_->max(at, at + 1) + static_cast<std::int64_t>(bytes) <=
         static_cast<std::int64_t>(budget_);
}

Row TierLevel::earliest(std::uint64_t bytes, Row from, Row at) const {
  if (!before_op_) return from;
  const std::int64_t most = static_cast<std::int64_t>(budget_) - static_cast<std::int64_t>(bytes);
  Row late = at;
  while (from < late) {
    const Row middle = from + (late - from) / 2;
    if (before_op_->max(middle, at + 1) <= most) {
      late = middle;
    } else {
      from = middle + 1;
    }
  }
  return from;
}

}  // namespace spillway::planning::pass
