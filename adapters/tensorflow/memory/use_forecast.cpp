// SPDX-License-Identifier: Apache-2.0
#include "use_forecast.hpp"

#include <algorithm>

namespace spillway::tf {
namespace {

// Of a period, by which a use may be early or late.
constexpr std::uint64_t kSlackParts = 32;
constexpr std::size_t kMostUses = 64;  // kept of an object

}  // namespace

std::uint64_t UseForecast::slack() const { return period_ / kSlackParts; }

void UseForecast::used(Uses& object) {
  object.push_back(now_++);
  while (object.size() > kMostUses || (is_known() && object.front() + period_ + slack() < now_)) {
    object.pop_front();
  }
}

void UseForecast::round_ended(std::uint64_t kind) {
  const auto [end, first] = ends_.try_emplace(kind, now_);
  if (!first && now_ != end->second) period_ = now_ - end->second;
  end->second = now_;
}

std::optional<std::uint64_t> UseForecast::until_next(const Uses& object) const {
  if (!is_known() || object.empty()) return std::nullopt;
  const std::uint64_t latest = object.back();
  for (const std::uint64_t use : object) {
    const std::uint64_t next = use + period_;
    if (next + slack() < now_) continue;
    // It was that use, a little early.
    if (use != latest && latest + slack() >= next) continue;
    return next > now_ ? next - now_ : 0;
  }
  return std::nullopt;
}

}  // namespace spillway::tf
