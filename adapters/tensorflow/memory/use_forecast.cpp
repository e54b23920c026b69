// SPDX-License-Identifier: Apache-2.0
#include "use_forecast.hpp"

#include <algorithm>
#include <utility>

namespace spillway::tf {
namespace {

// Of a period, by which a use may be early or late.
constexpr std::uint64_t kSlackParts = 32;
constexpr std::size_t kMostUses = 64;  // kept of an object

}  // namespace

std::uint64_t UseForecast::slack() const { return period_ / kSlackParts; }

bool UseForecast::is_to_come(std::uint64_t use) const {
  const std::uint64_t next = use + period_;
  // What was foretold for a time at which nothing was known has come, or not.
  return period_ != 0 && next >= known_since_ && next + slack() >= now_;
}

void UseForecast::used(Uses& object) {
  const auto foretold = std::ranges::find_if(object, [this](std::uint64_t use) {
    return is_to_come(use) && use + period_ <= now_ + slack();
  });
  if (foretold != object.end()) object.erase(foretold);
  const std::uint64_t oldest = longest_ + slack();
  while (!object.empty() &&
         (object.size() >= kMostUses || (longest_ != 0 && object.front() + oldest < now_))) {
    object.pop_front();
  }
  object.push_back(now_++);
}

void UseForecast::round_ended(std::uint64_t kind) {
  const auto [known, is_first] = rounds_.try_emplace(kind, Rounds{.end = now_});
  if (is_first) return;
  Rounds& rounds = known->second;
  const std::uint64_t gap = now_ - std::exchange(rounds.end, now_);
  if (gap == 0) return;
  // Other rounds may have come in between once, as those of an evaluation do.
  const std::uint64_t before = std::exchange(rounds.gap, gap);
  const std::uint64_t period = before == 0 ? gap : std::min(before, gap);
  if (period == period_) return;
  period_ = period;
  longest_ = std::max(longest_, period);
  known_since_ = now_;
}

std::optional<std::uint64_t> UseForecast::until_next(const Uses& object) const {
  const auto use =
      std::ranges::find_if(object, [this](std::uint64_t one) { return is_to_come(one); });
  if (use == object.end()) return std::nullopt;
  const std::uint64_t next = *use + period_;
  return next > now_ ? next - now_ : 0;
}

}  // namespace spillway::tf
