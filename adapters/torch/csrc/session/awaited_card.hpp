// SPDX-License-Identifier: Apache-2.0
// A budget of a graphics card before the program uses one. Nothing is managed then, and nothing is
// asked of the driver: launchers, loaders and compilers, which only import torch, make no context,
// and what they fork may use the card.
//
//     import torch                    await_card: settings are looked at, the status page says so
//     torch begins to use a card      Watch::start, by Python, which torch tells of it; where it
//                                     does not, the first allocation does (await_first_use)
//     the start is refused            refuse_card: all memory of the card is, from then on
//     the end, without a use          statistics of nothing
#pragma once

#include "spillway/runtime/settings.hpp"

namespace spillway::torch {

enum class CardBudget : int {
  kNone = 0,
  kYes = 1,  ///< it is of a graphics card where the process sees one: it names a card, or no device
  kOff = 2,  ///< so it would be, but the mode is off
};
CardBudget card_budget_of(const runtime::Settings& settings);

/// Begins to wait, once per process. `begin` is called, by any thread, before torch gives memory of
/// a card out that nobody else has told of: it starts and returns cuda::kGoesOn, or refuses the
/// memory. Null where the mode is off. For the thread that imports torch. Throws UserError for what
/// Watch::start would refuse without asking the driver.
void await_card(const runtime::Settings& stated, int (*begin)());

/// An engine has started, or nothing is to be managed any more: the status page says so.
void end_waiting_for_card();
/// The start was refused, which the program's end shall show, whatever it does until then.
void refuse_card();

}  // namespace spillway::torch
