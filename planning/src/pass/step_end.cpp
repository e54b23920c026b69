// SPDX-License-Identifier: Apache-2.0
#include "pass/step_end.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway::planning::pass {
namespace {

std::uint8_t place_at_end(const PassState& state, Row storage, Row older) {
  switch (state.items[older].where) {
    case Where::kHost:
      return 1;
    case Where::kDisk:
      return 2;
    default:
      return state.table.only_freed(storage) ? kBeginsNowhere : std::uint8_t{0};
  }
}

// The end of this pass and its beginning are two halves of the same gap. Where they disagree the
// storage is away in both, which needs no more memory than either.
void close_wrapping_gap(PassState& state, Row older, Row storage, std::uint8_t began_away) {
  const GapChoice begin = std::exchange(state.draft.leading[storage], GapChoice{});
  if (state.table.last_touch(older) == kNoRow) return;
  GapChoice* end = &state.draft.gap[state.table.last_touch(older)];
  while (end->more != kNoRow) end = &state.draft.again[end->more];
  const Row ops = state.table.ops();
  const bool left = end->remedy != Remedy::kKeep;
  const bool away = began_away != 0;
  const auto in_next_step = [&](Row at) { return at == kNoRow ? kNoRow : at + ops; };
  if (left && end->in_at != kNoRow && !away && begin.remedy == Remedy::kKeep) return;
  if (left) {
    end->in_at = away || begin.remedy != Remedy::kKeep ? in_next_step(begin.in_at) : ops;
  } else if (away) {
    constexpr std::array kRemedies{Remedy::kKeep, Remedy::kHost, Remedy::kDisk, Remedy::kDrop};
    end->remedy = kRemedies[began_away];
    end->out_at = std::min(state.items[older].free_from, ops);
    end->in_at = in_next_step(begin.in_at);
  } else if (begin.remedy != Remedy::kKeep) {
    end->remedy = begin.remedy;
    end->out_at = begin.out_at + ops;
    end->in_at = in_next_step(begin.in_at);
  }
}

}  // namespace

BeginState close_step(PassState& state, const BeginState& begin) {
  const AccessTable& table = state.table;
  BeginState end;
  end.away.assign(table.storages(), 0);
  end.copied.assign(table.storages(), 0);
  for (Row storage = 0; storage < table.storages(); ++storage) {
    const Row older = table.predecessor(storage);
    if (older == kNoRow) continue;
    if (table.first_touch(older) == kNoRow && older == storage) {
      const std::uint8_t away = begin.away[storage];
      if (away != 0) state.draft.idle[storage] = away == 1 ? Tier::kHost : Tier::kDisk;
      end.away[storage] = away;
      continue;
    }
    end.away[storage] = place_at_end(state, storage, older);
    if (end.away[storage] == 0) {
      const PassItem& item = state.items[older];
      end.copied[storage] = item.host_copy ? 1 : item.disk_copy ? 2 : 0;
    }
    close_wrapping_gap(state, older, storage, begin.away[storage]);
  }
  return end;
}

}  // namespace spillway::planning::pass
