// SPDX-License-Identifier: Apache-2.0
#include "bound/cyclic_view.hpp"

namespace spillway::planning::bound {
namespace {

void link_previous(CyclicView& view) {
  const AccessTable& table = view.model->table;
  view.previous.resize(table.touches());
  view.last_write.resize(table.touches());
  for (Row row = 0; row < table.touches(); ++row) {
    const Touch& touch = table.touch(row);
    const Row before = table.previous_touch(row);
    const Row older = table.predecessor(touch.storage);
    if (touch.creates) {
      view.previous[row] = kNeverAgain;
    } else if (before != kNoRow) {
      view.previous[row] = table.op_of(before);
    } else if (older != kNoRow && table.last_touch(older) != kNoRow) {
      view.previous[row] = static_cast<Position>(table.op_of(table.last_touch(older))) - view.ops;
    } else {
      view.previous[row] = -1;  // an input: it comes with the step
    }
    if (touch.writes) {
      view.last_write[row] = table.op_of(row);
    } else if (before != kNoRow) {
      view.last_write[row] = view.last_write[before];
    } else {
      view.last_write[row] = older != kNoRow ? kLongAgo : -1;
    }
  }
}

// A storage that lives on carries its last write over the end of the step.
void carry_writes(CyclicView& view) {
  const AccessTable& table = view.model->table;
  for (Row storage = 0; storage < table.storages(); ++storage) {
    const Row older = table.predecessor(storage);
    if (older == kNoRow || table.last_touch(older) == kNoRow) continue;
    const Position written = view.last_write[table.last_touch(older)];
    if (written == kLongAgo) continue;
    const Position carried = written < 0 ? written : written - view.ops;
    for (Row row = table.first_touch(storage); row != kNoRow; row = table.next_touch(row)) {
      if (table.touch(row).writes) break;
      view.last_write[row] = carried;
    }
  }
}

void link_next(CyclicView& view) {
  const AccessTable& table = view.model->table;
  view.next.assign(table.touches(), kNeverAgain);
  for (Row row = 0; row < table.touches(); ++row) {
    Row after = table.next_touch(row);
    Position shift = 0;
    if (after == kNoRow) {
      const Row heir = table.successor(table.touch(row).storage);
      if (heir == kNoRow) continue;
      after = table.first_touch(heir);
      shift = view.ops;
    }
    if (after == kNoRow) continue;
    view.next[row] = static_cast<Position>(table.op_of(after)) + shift;
  }
}

}  // namespace

CyclicView::CyclicView(const StepModel& m) : model(&m), ops(m.ops()) {
  begin.resize(m.ops());
  for (Row op = 0; op < m.ops(); ++op) {
    begin[op] = period;
    period += static_cast<double>(m.least_duration[op]);
  }
  link_previous(*this);
  carry_writes(*this);
  link_next(*this);
}

}  // namespace spillway::planning::bound
