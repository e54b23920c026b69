// SPDX-License-Identifier: Apache-2.0
#include "pass/slower_copies.hpp"

namespace spillway::planning::pass {
namespace {

TierLevel empty_level(const StepModel& model, Tier tier) {
  const AccessTable& table = model.table;
  return {model.budget(tier), table.alive(table.op_with_most_alive()), table.ops()};
}

}  // namespace

SlowerCopies::SlowerCopies(const StepModel& model)
    : model_(model),
      host_(empty_level(model, Tier::kHost)),
      disk_(empty_level(model, Tier::kDisk)) {}

void SlowerCopies::add(PassItem& item, Row storage, Tier tier, Row at) {
  const bool on_host = tier == Tier::kHost;
  (on_host ? item.host_copy : item.disk_copy) = true;
  (on_host ? host_ : disk_).add(model_.table.bytes(storage), at);
}

void SlowerCopies::remove_all(PassItem& item, Row storage, Row op) {
  const std::uint64_t bytes = model_.table.bytes(storage);
  if (item.host_copy) host_.remove(bytes, op);
  if (item.disk_copy) disk_.remove(bytes, op);
  item.host_copy = item.disk_copy = false;
}

std::optional<Tier> SlowerCopies::tier_for(const PassItem& item, Row storage, Row at) const {
  if (item.host_copy) return Tier::kHost;
  if (item.disk_copy) return Tier::kDisk;
  const std::uint64_t bytes = model_.table.bytes(storage);
  if (model_.has_host() && host_.has_room(bytes, at)) return Tier::kHost;
  if (model_.has_disk() && disk_.has_room(bytes, at)) return Tier::kDisk;
  return std::nullopt;
}

}  // namespace spillway::planning::pass
