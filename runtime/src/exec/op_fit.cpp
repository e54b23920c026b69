// SPDX-License-Identifier: Apache-2.0
#include "op_fit.hpp"

#include <utility>

#include "overbooking.hpp"
#include "spillway/runtime/exec/last_failure.hpp"
#include "what_stays.hpp"

namespace spillway::runtime {

namespace {

// Room for what rounding and colours may add to the blocks of one op: 32 KiB each (see Arena).
constexpr Bytes kPagesOfAnOp = kKiB * 256;

}  // namespace

bool OpFit::will_fit(ThreadFrames& frames) {
  const Bytes need = frames.needs.known();
  if (need.count == 0 || frames.inputs + need <= Bytes{budget_.limit().count / 2}) return true;
  std::optional<OutOfBudget::Facts> facts = known_shortage(frames);
  if (!facts) return true;
  say(*std::move(facts));
  return false;
}

void OpFit::say_whole_need(ThreadFrames& frames) {
  std::optional<OutOfBudget::Facts> facts = whole_shortage(frames);
  if (facts) say(*std::move(facts));
}

void OpFit::say(OutOfBudget::Facts facts) const {
  set_last_failure(OutOfBudget(shortages_.in_words(std::move(facts))).what());
}

std::optional<OutOfBudget::Facts> OpFit::known_shortage(ThreadFrames& frames) {
  const Bytes need = frames.needs.known();
  const EngineLock lock(mutex_);
  if (may_overbook(rules_, steps_)) return std::nullopt;
  freed_.drain();
  const Bytes stays = bytes_that_stay_anyway(memory_, mover_, rules_.min_size(), frames);
  for (;;) {
    if (stays + need <= budget_.limit()) return std::nullopt;
    const Bytes missing = stays + need - budget_.limit();
    if (!budget_.claim(missing) && !budget_.take_back(missing)) break;
  }
  frames.needs.fail();
  // The count is in bytes; blocks hold whole pages, and start at different ones.
  const Bytes smallest = stays + need + kPagesOfAnOp;
  OutOfBudget::Facts facts = shortages_.shortage(need, smallest - budget_.limit());
  facts.is_all = true;
  return facts;
}

std::optional<OutOfBudget::Facts> OpFit::whole_shortage(ThreadFrames& frames) {
  const EngineLock lock(mutex_);
  freed_.drain();
  const Bytes stays = bytes_that_stay_anyway(memory_, mover_, rules_.min_size(), frames);
  Bytes need = frames.needs.known();
  Bytes away{};
  const StorageRecord* last = nullptr;
  for (const StorageRecord* record : frames.pinned) {  // sorted by bytes_that_stay_anyway
    if (record == std::exchange(last, record) || record->block == nullptr) continue;
    need += record->bytes;
    if (memory_.resident(*record->block).count == 0) away += record->bytes;
  }
  const Bytes smallest = stays + away + frames.needs.known() + kPagesOfAnOp;
  // Bytes that other ops hold were in the way: the text above says so.
  if (smallest <= budget_.limit()) return std::nullopt;
  OutOfBudget::Facts facts = shortages_.shortage(need, smallest - budget_.limit());
  facts.is_whole = true;
  return facts;
}

}  // namespace spillway::runtime
