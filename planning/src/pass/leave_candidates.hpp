// SPDX-License-Identifier: Apache-2.0
// The storages on the device that may leave, in the orders in which a pass looks at it.
//
// By next use (or least recent use), over all storages or in each class of sizes; and, where
// recomputation is allowed, by what it costs per byte to make a storage again. A storage that has
// changed is offered anew, and its older entries are void: `PassItem::version` tells.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "pass/pass_item.hpp"
#include "pass/sweep.hpp"
#include "spillway/planning/cost/step_model.hpp"

namespace spillway::planning::pass {

/// The result of looking at a candidate.
enum class Look : std::uint8_t {
  kPassedOver,  ///< it counts for nothing
  kLooked,      ///< it counts as one of those that are looked at
  kEnough,      ///< none of those after it is worth a look
};

class LeaveCandidates {
 public:
  /// Refers to `model`.
  LeaveCandidates(const StepModel& model, LeaveOrder order, bool by_size);

  /// `item`, on the device, is that of `storage`; its version goes up.
  void offer(Row storage, PassItem& item, bool may_recompute);

  /// Calls `look(storage)`, which returns a Look, for the first candidates, until `most` of them
  /// were looked at: once for all storages, or once for each class of sizes.
  template <typename Function>
  void each_by_use(const std::vector<PassItem>& items, int most, const Function& look) {
    for (auto& heap : by_use_) visit(heap, items, most, look);
  }
  template <typename Function>
  void each_by_recomputation(const std::vector<PassItem>& items, int most, const Function& look) {
    visit(by_recomputation_, items, most, look);
  }

 private:
  using Entry = std::pair<double, std::pair<Row, std::uint32_t>>;  // rank, storage, version

  template <typename Heap, typename Function>
  void visit(Heap& heap, const std::vector<PassItem>& items, int most, const Function& look) {
    std::vector<Entry> seen;
    int looked = 0;
    while (!heap.empty() && looked < most) {
      const Entry entry = heap.top();
      const auto [storage, version] = entry.second;
      heap.pop();
      if (items[storage].version != version || items[storage].where != Where::kIn) continue;
      seen.push_back(entry);
      if (seen.size() > most_seen_) break;
      const Look came_to = look(storage);
      if (came_to == Look::kEnough) break;
      looked += came_to == Look::kLooked ? 1 : 0;
    }
    for (const Entry& entry : seen) heap.push(entry);  // void when it has left
  }

  [[nodiscard]] std::size_t size_class(Row storage) const;

  const StepModel& model_;
  LeaveOrder order_;
  std::size_t most_seen_;
  std::vector<std::priority_queue<Entry>> by_use_;  // by class of sizes; to leave first on top
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>>
      by_recomputation_;  // cheapest first
};

}  // namespace spillway::planning::pass
