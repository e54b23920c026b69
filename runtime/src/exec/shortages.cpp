// SPDX-License-Identifier: Apache-2.0
#include "shortages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "what_stays.hpp"

namespace spillway::runtime {

namespace {

constexpr std::size_t kNamedInErrors = 5;

const char* why_it_stays(const StorageRecord& record, Bytes min_size) {
  if (record.owner.load() == nullptr) return "workspace of a running op";
  if (record.kept != 0) return "kept";
  if (record.state.load() == residency::ResidencyState::kExempt) return "exempt";
  if (record.pins.load() != 0) return "used by an op or an export";
  if (record.bytes < min_size) return "smaller than what is moved";
  return "could not be written out";
}

}  // namespace

OutOfBudget::Facts Shortages::shortage(Bytes need, Bytes short_by) {
  status_.note_shortage(short_by);
  const char* op = this_thread_frames().op;
  OutOfBudget::Facts facts;
  facts.op = op == nullptr ? "" : op;
  facts.need = need;
  facts.have = saturating_sub(need, short_by);
  facts.budget = budget_.limit() + budget_.unmanaged();
  facts.unmanaged = budget_.unmanaged();
  facts.limit = budget_.setting();
  if (!moves(rules_.mode())) facts.idle_mode = to_string(rules_.mode());
  facts.smallest_budget = facts.budget + short_by;
  facts.why = mover_.failure();
  name_what_stays(facts);
  return facts;
}

OutOfBudget::Facts Shortages::in_words(OutOfBudget::Facts facts) const {
  ShortageWords words = framework_.shortage_words(facts.op);
  facts.also_known_as = std::move(words.also_known_as);
  facts.remedies = std::move(words.remedies);
  return facts;
}

void Shortages::name_what_stays(OutOfBudget::Facts& facts) const {
  const Bytes min_size = rules_.min_size();
  std::vector<const StorageRecord*> resident;
  for (const StorageRecord* record : mover_.live()) {
    if (memory_.held(*record->block).count == 0) continue;
    // The storages that can leave were not tried yet, or tried in vain.
    if (!facts.why.empty() || !can_leave(*record, min_size)) resident.push_back(record);
  }
  facts.small = bytes_that_stay(
      memory_, mover_, [&](const StorageRecord& record) { return record.bytes < min_size; });
  const std::size_t count = std::min(kNamedInErrors, resident.size());
  std::ranges::partial_sort(resident, resident.begin() + static_cast<std::ptrdiff_t>(count),
                            std::ranges::greater{}, &StorageRecord::bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const StorageRecord& record = *resident[i];
    const char* made_by = record.made_by.load();
    facts.pinned.push_back(fmt::format("{:>10}  {}, made by {}", to_string(record.bytes),
                                       why_it_stays(record, min_size),
                                       made_by == nullptr ? "unknown" : made_by));
  }
}

OutOfBudget::Facts Shortages::shortage(const RoomRequest& request, Bytes short_by) {
  OutOfBudget::Facts facts = shortage(request.bytes, short_by);
  if (request.in_vain.empty()) return facts;
  facts.waited = fmt::format("It waited {:.1f} s for {}.",
                             static_cast<double>(request.patience.waited()) / 1e9, request.in_vain);
  return facts;
}

OutOfBudget::Facts Shortages::shortage_in_op(const RoomRequest& request, Bytes short_by) {
  OutOfBudget::Facts facts = shortage(request, short_by);
  facts.begun = !facts.op.empty();
  return facts;
}

OutOfBudget::Facts Shortages::refusal(Bytes need) {
  OutOfBudget::Facts facts = shortage(need, need);
  facts.refusal = memory_.refusal();
  return facts;
}

std::string said_of_addresses(const ThreadFrames& frames) {
  Bytes held{};
  for (const StorageRecord* record : frames.addresses) held += record->bytes;
  return fmt::format(
      "\n  - Run an op, which lets go of addresses:"
      "\n    {} addresses that were given since this thread's last op hold {}."
      "\n    To tell storages apart, compare `untyped_storage()._cdata` instead.",
      frames.addresses.size(), to_string(held));
}

}  // namespace spillway::runtime
