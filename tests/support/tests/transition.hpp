// SPDX-License-Identifier: Apache-2.0
// The effect of one event on one storage: the same for two drivers, however they number storages.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/residency/residency_machine.hpp"

namespace spillway::testing {

struct Transition {
  residency::EventKind event{};
  Tier tier = Tier::kDevice;  ///< of an eviction
  StorageId storage{};
  std::vector<residency::Action> actions{};          ///< in order, with `storage` for an id
  std::optional<residency::ResidencyState> state{};  ///< then; nothing: it is no longer known
  std::array<bool, kTierCount> copies{};             ///< by tier
  std::array<Bytes, kTierCount> used{};              ///< by all storages

  bool operator==(const Transition&) const = default;
};

/// `machine`: the machine or its reference, after `event`. `storage` is what it is called here.
template <typename Machine>
Transition transition_of(const Machine& machine, const residency::Event& event, StorageId storage,
                         std::span<const residency::Action> actions) {
  Transition made{.event = event.kind, .tier = event.tier, .storage = storage};
  for (residency::Action action : actions) {
    action.id = storage;
    made.actions.push_back(action);
  }
  for (const Tier tier : kTiers) made.used[index_of(tier)] = machine.used(tier);
  if (!machine.contains(event.id)) return made;
  made.state = machine.state(event.id);
  for (const Tier tier : kTiers) made.copies[index_of(tier)] = machine.has_copy(event.id, tier);
  return made;
}

inline std::string to_string(const Transition& made) {
  std::string text(residency::to_string(made.event));
  if (made.event == residency::EventKind::kEvict) {
    text += fmt::format("({})", to_string(made.tier));
  }
  text += ":";
  for (const residency::Action& action : made.actions) {
    text += fmt::format(" {}", residency::to_string(action.kind));
    if (action.kind == residency::ActionKind::kFreeMemory) {
      text += fmt::format("({})", to_string(action.from));
    } else if (action.from != action.to) {
      text += fmt::format("({} to {})", to_string(action.from), to_string(action.to));
    }
  }
  text +=
      fmt::format("; then {}, copies on", made.state ? residency::to_string(*made.state) : "gone");
  for (const Tier tier : kTiers) {
    if (made.copies[index_of(tier)]) text += fmt::format(" {}", to_string(tier));
  }
  return text +
         fmt::format("; used {} {} {}", made.used[0].count, made.used[1].count, made.used[2].count);
}

}  // namespace spillway::testing
