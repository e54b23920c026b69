// SPDX-License-Identifier: Apache-2.0
#include "pass/recomputation.hpp"

#include <algorithm>
#include <unordered_map>

namespace spillway::planning::pass {
namespace {

// A chain longer than this is not worth its look-up; what is dropped on the way ends it earlier.
constexpr std::size_t kMostChain = 24;

bool contains(const std::vector<Row>& sorted, Row row) {
  return std::binary_search(sorted.begin(), sorted.end(), row);
}

}  // namespace

Recomputation::Recomputation(const StepModel& model, const std::vector<PassItem>& items,
                             const NextUses& uses, const OpVariants& variants,
                             std::uint64_t capacity, bool transients)
    : model_(model),
      table_(model.table),
      items_(items),
      uses_(uses),
      variants_(variants),
      capacity_(capacity),
      transients_(transients) {}

std::vector<Row> Recomputation::dropped_of(Row op, Row also_dropped) const {
  std::vector<Row> dropped;
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Row storage = table_.touch(row).storage;
    if (is_dropped(storage, also_dropped)) dropped.push_back(storage);
  }
  return dropped;
}

bool Recomputation::add_inputs(Row op, Row at, Row also_dropped, RecomputeSet& set,
                               std::vector<Row>& open) const {
  for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
    const Touch& touch = table_.touch(row);
    if (touch.creates) continue;
    const Row input = touch.storage;
    const bool there = std::min(model_.next_write[row], table_.freed_by(input)) >= at;
    if (there && !is_dropped(input, also_dropped)) {
      set.leaves.push_back(input);
      continue;
    }
    if (!there && (!transients_ || model_.next_write[row] != kNoRow)) return false;
    open.push_back(model_.recompute_op[input]);
  }
  return true;
}

RecomputeSet Recomputation::set_for(const std::vector<Row>& roots, Row at, Row also_dropped) const {
  RecomputeSet set;
  std::vector<Row> open;
  open.reserve(roots.size());
  for (const Row root : roots) open.push_back(model_.recompute_op[root]);
  while (!open.empty()) {
    const Row op = open.back();
    open.pop_back();
    if (op == kNoRow) return {};
    if (std::find(set.ops.begin(), set.ops.end(), op) != set.ops.end()) continue;
    set.ops.push_back(op);
    set.cost += static_cast<double>(variants_.duration(op));
    if (!add_inputs(op, at, also_dropped, set, open)) return {};
  }
  std::sort(set.ops.begin(), set.ops.end());
  std::sort(set.leaves.begin(), set.leaves.end());
  set.leaves.erase(std::unique(set.leaves.begin(), set.leaves.end()), set.leaves.end());
  set.possible = true;
  return set;
}

Row Recomputation::last_reader(const RecomputeSet& set, Row storage) const {
  Row last = model_.recompute_op[storage];
  for (const Row op : set.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      if (table_.touch(row).storage == storage) last = op;
    }
  }
  return last;
}

void Recomputation::drop_between(RecomputeSet& set, Row at, Row also_dropped) const {
  const std::vector<Row> kept = dropped_of(at, also_dropped);
  for (const Row op : set.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Row made = table_.touch(row).storage;
      if (!table_.touch(row).creates || !is_dropped(made, also_dropped)) continue;
      if (std::find(kept.begin(), kept.end(), made) != kept.end()) continue;
      const Row next = uses_.after(made, items_[made].touch, at);
      if (next >= table_.ops() || model_.chain_until[made] < next) continue;
      set.again.push_back(made);
    }
  }
  std::sort(set.again.begin(), set.again.end());
}

RecomputeBytes Recomputation::bytes_of(const RecomputeSet& set, Row also_dropped) const {
  std::unordered_map<Row, Row> last_reader;
  for (const Row op : set.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      last_reader[table_.touch(row).storage] = op;
    }
  }
  RecomputeBytes bytes;
  std::unordered_map<Row, std::vector<Row>> gone_after;
  for (const Row op : set.ops) {
    for (Row row = table_.first_touch_of_op(op); row < table_.last_touch_of_op(op); ++row) {
      const Row made = table_.touch(row).storage;
      if (!table_.touch(row).creates) continue;
      bytes.left += table_.bytes(made);
      if (is_dropped(made, also_dropped) && !contains(set.again, made)) continue;
      gone_after[last_reader[made]].push_back(made);
    }
    bytes.most = std::max(bytes.most, bytes.left + variants_.workspace(op));
    for (const Row made : gone_after[op]) bytes.left -= table_.bytes(made);
  }
  return bytes;
}

bool Recomputation::fits(const RecomputeSet& set, Row at, Row also_dropped) const {
  const RecomputeBytes bytes = bytes_of(set, also_dropped);
  std::uint64_t read = 0;    // by what runs again alone: free again when it has run
  std::uint64_t beside = 0;  // needed by the op
  for (const Row leaf : set.leaves) read += table_.bytes(leaf);
  for (Row row = table_.first_touch_of_op(at); row < table_.last_touch_of_op(at); ++row) {
    const Touch& touch = table_.touch(row);
    if (touch.creates || is_dropped(touch.storage, also_dropped)) continue;
    beside += table_.bytes(touch.storage);
    if (contains(set.leaves, touch.storage)) read -= table_.bytes(touch.storage);
  }
  const std::uint64_t own = model_.created[at] + variants_.workspace(at);
  return read + beside + bytes.most <= capacity_ && beside + bytes.left + own <= capacity_;
}

RecomputeSet Recomputation::if_dropped(Row storage, double& cost) const {
  const Row at = items_[storage].next;
  const RecomputeSet before = set_for(dropped_of(at, kNoRow), at, kNoRow);
  RecomputeSet set = set_for(dropped_of(at, storage), at, storage);
  const Row op = model_.recompute_op[storage];
  if (!set.possible || set.ops.size() > kMostChain) return {};
  // Its reader is not recomputed any more: its next use is further on than thought.
  if (!contains(set.ops, op)) return {};
  if (!fits(set, at, storage)) {
    drop_between(set, at, storage);
    if (!fits(set, at, storage)) return {};
  }
  cost = set.cost - before.cost;
  return set;
}

}  // namespace spillway::planning::pass
