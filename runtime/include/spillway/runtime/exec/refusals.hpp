// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

/// Makes the framework refuse accesses to storages that are away, and says why in the words of the
/// refusal. Under the engine's lock.
class Refusals {
 public:
  explicit Refusals(Framework& framework) : framework_(framework) {}

  /// As long as addresses are shown, a storage refuses writing alone if reading its range faults.
  void show_addresses(bool shown) { addresses_shown_ = shown; }
  [[nodiscard]] bool addresses_shown() const { return addresses_shown_; }

  void refuse(StorageRecord& record);
  /// Also its address: the bytes are on their way.
  void refuse_all(StorageRecord& record) { revoke(record, Refusal::kAll); }
  void allow(StorageRecord& record);

 private:
  void revoke(StorageRecord& record, Refusal refusal);

  Framework& framework_;
  bool addresses_shown_ = false;
};

}  // namespace spillway::runtime
