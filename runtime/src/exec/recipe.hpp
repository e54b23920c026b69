// SPDX-License-Identifier: Apache-2.0
// What it takes to make a storage again that is dropped.
//
//     y <-[softmax]- s <-[bmm]- q, k       s died: q and k are read, s is made on the way
//
// Under the engine's lock. Throws only std::bad_alloc.
#pragma once

#include <optional>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/exec/making.hpp"
#include "spillway/runtime/exec/storage_record.hpp"

namespace spillway::runtime {

struct Recipe {
  std::vector<HeldSource> reads;  ///< storages that live, each once
  Bytes read{};                   ///< their bytes
  Bytes made{};                   ///< of what is made on the way
  TimeNs cost = 0;                ///< of all ops
};

/// Nothing if the bytes that `record` holds now cannot be made again from what there is.
[[nodiscard]] std::optional<Recipe> recipe_of(const StorageRecord& record);

/// Whether the source is to be read where it is, when a storage is made that holds `held`.
[[nodiscard]] bool is_read(const Making::Source& source, const std::vector<HeldSource>& held);

/// The source that `record` is to an op which reads it now. Its makings are known so deep at most:
/// a recurrent program's would go back to its first step.
[[nodiscard]] Making::Source source_of(StorageRecord& record);

}  // namespace spillway::runtime
