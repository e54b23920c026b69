// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/page_opening.hpp"

namespace spillway::runtime {

/// What openings give back to the driver before they create memory of their own: handles of other
/// sizes. Until then all of it is paid for, so that the driver never counts more.
///
///     given back   16 MiB              8 MiB
///     created      12 MiB              8 MiB + paid for besides
///     surplus       4 MiB, when done   none
///
/// A driver that does not take a handle back has lost the device, as a rule: the account is not
/// right then, and nobody can go on.
/// Not thread-safe: guarded by its owner's lock.
class PageExchanges {
 public:
  struct Given {
    PagesHandle handle{};
    Bytes bytes{};
  };
  struct Exchange {
    std::shared_ptr<PageOpening> opening;
    std::vector<Given> given;
    Bytes surplus{};
  };

  void add(Exchange exchange) { exchanges_.push_back(std::move(exchange)); }
  /// Of one that was not begun: it has given nothing back.
  std::optional<Exchange> take(const PageOpening& opening) {
    const auto found = std::ranges::find(exchanges_, &opening,
                                         [](const Exchange& one) { return one.opening.get(); });
    if (found == exchanges_.end()) return std::nullopt;
    Exchange taken = std::move(*found);
    exchanges_.erase(found);
    return taken;
  }
  [[nodiscard]] Bytes surplus() const {
    Bytes sum{};
    for (const Exchange& one : exchanges_) sum += one.surplus;
    return sum;
  }
  /// Forgets those that are over and were begun, and returns what nobody pays for any more.
  Bytes take_surplus() {
    Bytes surplus{};
    std::erase_if(exchanges_, [&](const Exchange& one) {
      const bool gave = one.opening->over() && one.opening->begun();
      if (gave) surplus += one.surplus;
      return gave;
    });
    return surplus;
  }

 private:
  std::vector<Exchange> exchanges_;
};

}  // namespace spillway::runtime
