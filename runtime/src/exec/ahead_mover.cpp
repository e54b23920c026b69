// SPDX-License-Identifier: Apache-2.0
#include "ahead_mover.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>

#include "spillway/base/fault.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "what_stays.hpp"

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

// Looking takes at most one part in so many of the time. Moves do not count: mapping takes 50 us
// and more of each prefetch to a card, so one look at thirty put off the next by 30 ms.
constexpr TimeNs kLookShare = 20;
// Demand is known to the page, but blocks of less than a chunk stay cached where they were freed,
// and slabs come in spans: of the budget, this part is not planned with.
constexpr std::uint64_t kUnplannedShare = 64;
// So many ops ahead, blocks are made ready for what they allocate. Those of a transformer open some
// ten, which takes a thread one to two milliseconds, about as long as the ops.
constexpr std::uint64_t kOpsExpected = 64;

void act_out_delay(std::string_view point) {
  if (const auto fault = fault_at(point)) {
    std::this_thread::sleep_for(std::chrono::microseconds(fault->delay_us));
  }
}

Bytes planned_with(Bytes budget) { return budget - Bytes{budget.count / kUnplannedShare}; }

/// Ops of the lane until the next use, or kNeverUsed where none is predicted.
std::uint64_t ops_until_use(const StorageRecord& record, std::uint64_t now,
                            const Lane::Outlook& outlook) {
  const std::uint64_t next = record.next_use.load(std::memory_order_relaxed);
  return next > now && next != kNeverUsed ? outlook.ops_in(next - now) : kNeverUsed;
}

}  // namespace

void AheadMover::look_ahead(Lane& lane) {
  Bytes most{};
  bool left = false;
  {
    Lane::Outlook outlook(lane);
    if (outlook.known() && !rules_.blind()) {
      most = outlook.most();
    } else if (outlook.note_ahead(false)) {
      left = true;
    } else {
      return;
    }
  }
  if (left) {
    const EngineLock lock(mutex_);  // the lane left the path that they were for
    mover_.cancel_ahead(&lane);
    memory_.expect({});
    return;
  }
  if (mover_.away().count == 0 && most <= planned_with(budget_.limit())) return;
  const TimeNs begin = now_ns();
  if (begin < look_again_at_.load(std::memory_order_relaxed)) return;
  act_out_delay("engine.look_ahead");
  const auto moving = move_ahead(lane);
  if (!moving) return;
  const TimeNs end = now_ns();
  look_again_at_.store(end + (end - begin - *moving) * kLookShare, std::memory_order_relaxed);
}

// Nothing if, before the lock was had, the engine stopped, or got another budget, or another
// thread's op left the step.
std::optional<TimeNs> AheadMover::move_ahead(Lane& lane) {
  const EngineLock lock(mutex_);
  if (!moves(rules_.mode()) || rules_.blind()) return std::nullopt;
  freed_.drain();
  Lane::Outlook outlook(lane);
  if (!outlook.known()) return std::nullopt;
  outlook.note_ahead(true);
  const Bytes budget = planned_with(budget_.limit()) + idle_away(outlook);
  const TimeNs begin = now_ns();
  outlook.choose_gaps(budget);
  TimeNs moving = now_ns() - begin;
  if (outlook.most() > budget) moving += write_behind(lane);
  moving += expect(outlook);
  moving += prefetch(outlook, lane);
  return moving;
}

// Also sets `away_records_`, whose indices are those of the result.
std::vector<AwayStorage> AheadMover::away_storages(const Lane::Outlook& outlook) {
  const std::uint64_t now = steps_.clock();
  std::vector<AwayStorage> away;
  away_records_.clear();
  for (StorageRecord* record : mover_.live()) {
    const ResidencyState state = record->state.load(std::memory_order_relaxed);
    if (state == ResidencyState::kResident || state == ResidencyState::kFetching ||
        state == ResidencyState::kExempt) {
      continue;
    }
    const bool leaving = state == ResidencyState::kEvicting;
    if (leaving && record->leaving.count == 0) continue;  // in use again: it stays
    away.push_back({.next_use = ops_until_use(*record, now, outlook),
                    .bytes = leaving ? record->leaving : record->away,
                    .fetchable = !leaving && state != ResidencyState::kDropped});
    away_records_.push_back(record);
  }
  return away;
}

// What the demand of the step's ops contains and no op of it uses: the optimizer's state while the
// program evaluates, another model.
Bytes AheadMover::idle_away(const Lane::Outlook& outlook) {
  Bytes sum{};
  for (const AwayStorage& storage : away_storages(outlook)) {
    if (storage.next_use == kNeverUsed) sum += storage.bytes;
  }
  return sum;
}

// In the order of their last uses, in which a device lets go of them; those may change meanwhile.
TimeNs AheadMover::write_behind(const Lane& lane) {
  const std::uint64_t now = steps_.clock();
  std::vector<std::pair<std::uint64_t, StorageRecord*>> leaving;
  for (StorageRecord* record : mover_.live()) {
    const bool unused = record->next_use.load(std::memory_order_relaxed) > now;
    if (!unused || !record->leaves.load(std::memory_order_relaxed)) continue;
    if (!can_leave(*record, rules_.min_size())) continue;
    leaving.emplace_back(record->last_use.load(std::memory_order_relaxed), record);
  }
  std::ranges::sort(leaving);
  const TimeNs begin = now_ns();
  for (const auto& [last_use, record] : leaving) {
    if (rules_.start_at() < 1.0 && room_.above_start().count == 0) break;
    departures_.begin_ahead(*record, &lane);
  }
  return now_ns() - begin;
}

TimeNs AheadMover::expect(const Lane::Outlook& outlook) {
  const TimeNs begin = now_ns();
  memory_.expect(outlook.opened(kOpsExpected));
  return now_ns() - begin;
}

// What comes has to fit at all ops until its use, and now into room that is there.
TimeNs AheadMover::prefetch(const Lane::Outlook& outlook, const Lane& lane) {
  if (mover_.addresses_shown()) return 0;
  const auto most = [&](std::uint64_t first, std::uint64_t count) {
    return outlook.most(first, count);
  };
  const std::vector<AwayStorage> away = away_storages(outlook);
  const std::vector<std::size_t> coming =
      choose_prefetches(away, most, outlook.period(), planned_with(budget_.limit()));
  if (coming.empty()) return 0;
  Bytes room = saturating_sub(budget_.limit(), memory_.live() + memory_.unavailable());
  const TimeNs begin = now_ns();
  for (const std::size_t index : coming) {
    if (away_records_[index]->room > room) break;
    room -= away_records_[index]->room;
    if (!mover_.prefetch(*away_records_[index], &lane)) break;
  }
  return now_ns() - begin;
}

}  // namespace spillway::runtime
