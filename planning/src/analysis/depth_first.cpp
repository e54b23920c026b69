// SPDX-License-Identifier: Apache-2.0
#include "spillway/planning/analysis/depth_first.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "spillway/base/error.hpp"
#include "spillway/planning/analysis/access_table.hpp"
#include "spillway/trace/trace_columns.hpp"

namespace spillway::planning {
namespace {

/// `after` waits for `before`. An op that waits for another twice stands there twice.
struct Dependence {
  Row before = 0;
  Row after = 0;
};

bool has_unseen_effects(const Trace& trace, const AccessTable& table, Row op) {
  if (trace.ops.recomputable[op] != 0) return false;
  for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
    if (table.touch(row).writes && !table.touch(row).creates) return false;
  }
  return true;
}

// By ascending op behind. Every touch is looked at once by its op, and once by the next writer.
std::vector<Dependence> dependences_of(const Trace& trace, const AccessTable& table) {
  std::vector<Dependence> all;
  std::vector<Row> writer(table.storages(), kNoRow);  // the last touch that wrote
  Row unseen = kNoRow;                                // the last op with effects not seen
  for (Row op = 0; op < table.ops(); ++op) {
    for (Row row = table.first_touch_of_op(op); row < table.last_touch_of_op(op); ++row) {
      const Touch& touch = table.touch(row);
      Row& written = writer[touch.storage];
      if (written != kNoRow) all.push_back({table.op_of(written), op});
      if (!touch.writes) continue;
      for (Row reader = table.previous_touch(row); reader != written;
           reader = table.previous_touch(reader)) {
        all.push_back({table.op_of(reader), op});
      }
      written = row;
    }
    if (!has_unseen_effects(trace, table, op)) continue;
    if (unseen != kNoRow) all.push_back({unseen, op});
    unseen = op;
  }
  return all;
}

/// The ops that wait for each, in the program's order.
struct Followers {
  std::vector<std::size_t> first;
  std::vector<Row> ops;
  std::vector<Row> waits;  ///< by op, for how many it waits

  Followers(std::size_t count, std::span<const Dependence> all)
      : first(count + 1), ops(all.size()), waits(count) {
    for (const Dependence& each : all) {
      ++first[each.before + 1];
      ++waits[each.after];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
    std::vector<std::size_t> next(first.begin(), first.end() - 1);
    for (const Dependence& each : all) ops[next[each.before]++] = each.after;
  }
  [[nodiscard]] std::span<const Row> of(Row op) const {
    return std::span(ops).subspan(first[op], first[op + 1] - first[op]);
  }
};

template <typename Column>
void fill(Column& made, const Column& column, std::span<const OpIndex> order) {
  for (const OpIndex op : order) made.push_back(column[to_value(op)]);
}

template <typename Lists>
void fill_rows(Lists& made, const Lists& lists, std::span<const OpIndex> order) {
  for (const OpIndex op : order) made.append(lists[op]);
}

void number_by_appearance(std::vector<std::uint32_t>& column) {
  std::map<std::uint32_t, std::uint32_t> numbers;
  for (std::uint32_t& each : column) {
    each = numbers.try_emplace(each, static_cast<std::uint32_t>(numbers.size())).first->second;
  }
}

StorageLists frees_of(const Trace& trace, std::span<const OpIndex> order) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t> last(trace.storages.size(), kNone);  // position of the last touch
  std::vector<std::size_t> position(order.size(), kNone);
  for (std::size_t at = 0; at < order.size(); ++at) {
    SPILLWAY_CHECK(to_value(order[at]) < order.size() && position[to_value(order[at])] == kNone,
                   "an order holds every op once");
    position[to_value(order[at])] = at;
    for (const StorageLists* lists : {&trace.ops.creates, &trace.ops.reads, &trace.ops.writes}) {
      for (const StorageId id : (*lists)[order[at]]) last[to_value(id)] = at;
    }
  }
  std::vector<std::vector<StorageId>> rows(order.size());
  for (std::size_t op = 0; op < order.size(); ++op) {
    for (const StorageId id : trace.ops.frees[OpIndex{op}]) {
      const std::size_t touched = last[to_value(id)];
      rows[touched == kNone ? position[op] : touched].push_back(id);
    }
  }
  StorageLists frees;
  for (const std::vector<StorageId>& row : rows) frees.append(row);
  return frees;
}

}  // namespace

std::vector<OpIndex> depth_first_order(const Trace& trace) {
  const AccessTable table(trace);
  Followers followers(table.ops(), dependences_of(trace, table));
  std::vector<Row> ready;  // the top at the end, so that what is pushed last runs first
  for (Row op = table.ops(); op-- > 0;) {
    if (followers.waits[op] == 0) ready.push_back(op);
  }
  std::vector<OpIndex> order;
  order.reserve(table.ops());
  while (!ready.empty()) {
    const Row op = ready.back();
    ready.pop_back();
    order.push_back(OpIndex{op});
    const std::span<const Row> waiting = followers.of(op);
    std::for_each(waiting.rbegin(), waiting.rend(), [&](Row follower) {
      if (--followers.waits[follower] == 0) ready.push_back(follower);
    });
  }
  return order;
}

Trace reordered(const Trace& trace, std::span<const OpIndex> order) {
  SPILLWAY_CHECK(order.size() == trace.ops.size(), "an order holds every op once");
  Trace made{.machine = trace.machine,
             .framework = trace.framework,
             .timed = trace.timed,
             .workspace_known = trace.workspace_known,
             .storages = trace.storages,
             .ops = {}};
  made.ops.frees = frees_of(trace, order);  // first, since it refuses an order that is none
  each_column(kOpColumns, [&](auto column, auto /*field*/) {
    fill(made.ops.*column, trace.ops.*column, order);
  });
  for (const OpListColumn& list : kOpListColumns) {
    if (list.column == &TraceOps::frees) continue;
    fill_rows(made.ops.*list.column, trace.ops.*list.column, order);
  }
  fill_rows(made.ops.alternatives, trace.ops.alternatives, order);
  number_by_appearance(made.ops.thread);
  number_by_appearance(made.ops.stream);
  return made;
}

}  // namespace spillway::planning
