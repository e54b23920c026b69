// SPDX-License-Identifier: Apache-2.0
// The storages that lie on the host though the plan has them on the disk.
//
//     plan        evict a to disk            fetch a           evict b to host
//     host                |====== a ======== . . . . . . . . . a? |=== b ===
//     disk                        |== a ...  (taken back)
//
// A storage passes through the host on its way to the disk. Fetched before it is through, it comes
// from the host, and that copy stays: it makes the next eviction free. But the plan counts on the
// host's room, so the copy goes as soon as an eviction lacks it (Departures). The disk's room for
// what goes on can be promised, so that nothing else takes it meanwhile.
#pragma once

#include <utility>
#include <vector>

#include "holdings.hpp"

namespace spillway::planning::sim {

class HostPassage {
 public:
  explicit HostPassage(Holdings& holdings) : holdings_(holdings) {}

  /// The plan has its slower copy on the disk.
  void mean_for_disk(ItemIndex index) {
    if (holdings_[index].meant_for_disk) return;
    holdings_[index].meant_for_disk = true;
    passing_.push_back(index);
  }
  /// The items meant for the disk that are alive.
  const std::vector<ItemIndex>& passing() {
    std::erase_if(passing_, [this](ItemIndex index) {
      return !holdings_[index].meant_for_disk || !holdings_.contains(holdings_[index]);
    });
    return passing_;
  }

  static void go_on(Item& item) {
    if (item.onward == Onward::kStays) item.onward = Onward::kGoesOn;
  }
  /// It goes on, into room on the disk that the caller has made sure of.
  void go_on_with_room(Item& item) {
    if (std::exchange(item.onward, Onward::kGoesOnWithRoom) == Onward::kGoesOnWithRoom) return;
    promised_ += item.bytes;
  }
  /// It goes on no more; what it was promised is another's.
  void stay(Item& item) {
    if (std::exchange(item.onward, Onward::kStays) != Onward::kGoesOnWithRoom) return;
    promised_ -= item.bytes;
  }
  /// The bytes of the disk that are promised.
  [[nodiscard]] Bytes promised() const { return promised_; }

 private:
  Holdings& holdings_;
  std::vector<ItemIndex> passing_;  // others too
  Bytes promised_{};
};

}  // namespace spillway::planning::sim
