// SPDX-License-Identifier: Apache-2.0
// The storages that threads hold between two of their ops.
#include <fmt/format.h>

#include <string>

#include "engine_lock.hpp"

namespace spillway::runtime {

namespace {

std::string said_of_addresses(const ThreadFrames& frames) {
  Bytes held{};
  for (const StorageRecord* record : frames.addresses) held += record->bytes;
  return fmt::format(
      "\n  - Run an op, which lets go of addresses:"
      "\n    {} addresses that were given since this thread's last op hold {}."
      "\n    To tell storages apart, compare `untyped_storage()._cdata` instead.",
      frames.addresses.size(), to_string(held));
}

}  // namespace

// Of every thread, this one too: it may ask for room between two ops.
bool Engine::let_go_of_fresh_outputs() {
  bool any = false;
  each_shown_frame([&](ShownFrame& frame) {
    any |= frame.fresh().let_go_if([&](const StorageRecord& record) {
      void* const owner = record.owner.load();
      return owner != nullptr && framework_.handed_over(owner);
    });
  });
  return any;
}

bool Engine::give_address(StorageRecord& record) {
  if (in_child_) return use_in_child(record, Access::kWrite);
  ThreadFrames& frames = this_thread_frames();
  frames.hold_address(record);
  record.last_use.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  record.announce();
  if (use_slow(record, Access::kWrite)) return true;
  frames.let_go_of_address(record);
  if (last_failure_kind() == FailureKind::kShortage && !frames.addresses.empty()) {
    set_last_failure(last_failure() + said_of_addresses(frames));
  }
  return false;
}

}  // namespace spillway::runtime
