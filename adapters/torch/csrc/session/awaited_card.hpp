// SPDX-License-Identifier: Apache-2.0
// A budget of a graphics card before the program uses one. Nothing is managed then, and nothing is
// asked of the driver: launchers, loaders and compilers, which only import torch, make no context,
// and what they fork may use the card.
//
//     import torch                 await_card: settings are looked at, the status page says so
//     torch begins to use a card   Watch::start, by whoever sees that; the wait is over
//     the end, without a use       statistics of nothing
#pragma once

#include "spillway/runtime/settings.hpp"

namespace spillway::torch {

/// Whether the budget is of a graphics card where the process sees one: it names a card, or no
/// device at all.
bool may_be_of_a_card(const runtime::Settings& settings);

/// Begins to wait, once per process. For the thread that imports torch. Throws UserError for what
/// Watch::start would refuse without asking the driver.
void await_card(const runtime::Settings& stated);

/// An engine has started, or nothing is to be managed any more: the status page says so.
void end_waiting_for_card();

}  // namespace spillway::torch
