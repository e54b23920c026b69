// SPDX-License-Identifier: Apache-2.0
// What moved most, as a process shows it to others: in its statistics and on its status page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>

#include "spillway/runtime/move_tally.hpp"
#include "spillway/runtime/status_page.hpp"

namespace spillway::runtime {

/// The member `top_movers` of docs/statistics.md.
[[nodiscard]] nlohmann::ordered_json to_json(std::span<const MoveTally::Moved> movers);

/// Names are cut to fit, and so is the list. By the thread that owns the slot.
void show(std::span<const MoveTally::Moved> movers, StatusSlot& slot);

}  // namespace spillway::runtime
