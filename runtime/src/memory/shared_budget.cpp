// SPDX-License-Identifier: Apache-2.0
#include "shared_budget.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

// A member's claim grows by at least this: each growth makes the root look at the page.
constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
// Less than this of its own is not worth a claim: most loader workers stay below it.
constexpr std::uint64_t kNegligible = std::uint64_t{1} << 20;
// A root that holds less than this share of the total is one that only waits for its members.
constexpr std::uint64_t kIdleShare = 16;
constexpr auto kLookForDeadEvery = std::chrono::milliseconds(200);

constexpr const char* kName = "spillway-budget";
constexpr std::int32_t kBusy = -1;

/// A process that has ended, reaped or not.
bool is_gone(std::int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t end = text.rfind(')');  // of the name, which may hold anything
  return end == std::string::npos || end + 2 >= text.size() || text[end + 2] == 'Z';
}

}  // namespace

void SharedBudget::lead(Bytes total) {
  if (member_) return;
  if (page_ == nullptr) {
    try {
      shared_ = SharedPage::create(kName, sizeof(Page));
    } catch (const UserError&) {
      return;
    }
    page_ = static_cast<Page*>(shared_.memory());
  }
  page_->total.store(total.count);
  page_->changes.fetch_add(1);
}

bool SharedBudget::join(const std::string& path) {
  if (page_ != nullptr) return true;
  shared_ = SharedPage::open(path, kName, sizeof(Page));
  page_ = static_cast<Page*>(shared_.memory());
  if (page_ == nullptr) return false;
  member_ = true;
  drop_claims_of_dead();
  slot_ = take_slot(Kind::kSpawned);
  if (slot_ != nullptr) return true;
  page_ = nullptr;
  shared_ = {};
  member_ = false;
  return false;
}

Bytes SharedBudget::total_of(const std::string& path) {
  const SharedPage page = SharedPage::open(path, kName, sizeof(Page));
  return {page.memory() == nullptr ? 0 : static_cast<Page*>(page.memory())->total.load()};
}

SharedBudget::Slot* SharedBudget::take_slot(Kind kind) {
  for (Slot& slot : page_->slots) {
    std::int32_t free = 0;
    if (!slot.pid.compare_exchange_strong(free, kBusy)) continue;
    slot.kind.store(kind);
    slot.pid.store(::getpid());
    return &slot;
  }
  return nullptr;
}

void SharedBudget::clear(Slot& slot) {
  slot.claim.store(0);
  slot.pid.store(0);
  page_->changes.fetch_add(1);
}

Bytes SharedBudget::total() const { return {page_ == nullptr ? 0 : page_->total.load()}; }

Bytes SharedBudget::claimed_by_others() const {
  Bytes sum{};
  if (!is_root()) return sum;
  for (const Slot& slot : page_->slots) {
    if (slot.pid.load() > 0) sum += Bytes{slot.claim.load()};
  }
  return sum;
}

// A part of what no forked process holds, since that cannot be made to leave.
std::uint64_t SharedBudget::equal_part() const {
  const std::uint64_t total = page_->total.load();
  std::uint64_t parts = is_root() || page_->root_used.load() > total / kIdleShare ? 1 : 0;
  std::uint64_t forked = 0;
  for (const Slot& slot : page_->slots) {
    if (slot.pid.load() <= 0) continue;
    const std::uint64_t claim = slot.claim.load();
    if (slot.kind.load() == Kind::kForked) {
      forked += claim;
    } else if (&slot == slot_.load() || claim != 0) {
      ++parts;
    }
  }
  return (total - std::min(total, forked)) / std::max<std::uint64_t>(parts, 1);
}

Bytes SharedBudget::reach() const {
  if (member_) return {equal_part()};
  const Bytes rest = saturating_sub({page_->total.load()}, claimed_by_others());
  return std::max(rest, Bytes{equal_part()});
}

Bytes SharedBudget::limit() {
  seen_ = page_->changes.load();
  return member_ ? std::min(Bytes{slot_.load()->claim.load()}, reach()) : reach();
}

bool SharedBudget::claim(Bytes needed) {
  if (!is_member()) return false;
  const std::uint64_t claimed = slot_.load()->claim.load();
  const std::uint64_t wanted = claimed + std::max({needed.count, claimed / 4, kStep});
  if (wanted > equal_part()) drop_claims_of_dead_if_due();
  const std::uint64_t part = equal_part();
  if (claimed >= part) return false;
  slot_.load()->claim.store(std::min(part, wanted));
  page_->changes.fetch_add(1);
  return true;
}

void SharedBudget::release() {
  if (!is_member()) return;
  slot_.load()->claim.store(0);
  page_->changes.fetch_add(1);
}

void SharedBudget::drop_claims_of_dead() {
  if (page_ == nullptr) return;
  looked_for_dead_ = Clock::now();
  for (Slot& slot : page_->slots) {
    std::int32_t pid = slot.pid.load();
    if (pid <= 0 || !is_gone(pid) || !slot.pid.compare_exchange_strong(pid, kBusy)) continue;
    clear(slot);
  }
}

void SharedBudget::drop_claims_of_dead_if_due() {
  if (Clock::now() - looked_for_dead_ >= kLookForDeadEvery) drop_claims_of_dead();
}

void SharedBudget::forked_begin() {
  slot_ = nullptr;
  member_ = true;
  forked_held_.store(0);
}

void SharedBudget::forked_hold(std::int64_t bytes) noexcept {
  if (page_ == nullptr) return;
  const auto steps = [](std::int64_t held) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(held, 0)) / kNegligible;
  };
  const std::int64_t before = forked_held_.fetch_add(bytes);
  if (steps(before) == steps(before + bytes)) return;
  Slot* slot = slot_.load();
  if (slot == nullptr) {
    Slot* const taken = take_slot(Kind::kForked);
    if (taken == nullptr) return;
    if (slot_.compare_exchange_strong(slot, taken)) {
      slot = taken;
    } else {
      clear(*taken);  // another thread was first
    }
  }
  // Whichever thread stores last has seen what is held then.
  std::uint64_t held = 0;
  do {
    held = steps(forked_held_.load());
    slot->claim.store(held * kNegligible);
  } while (steps(forked_held_.load()) != held);
  page_->changes.fetch_add(1);
}

}  // namespace spillway::runtime
