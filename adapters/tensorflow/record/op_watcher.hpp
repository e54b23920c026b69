// SPDX-License-Identifier: Apache-2.0
// Sees each op that the framework's processor runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::tf {

/// The whole memory behind a tensor.
struct SeenMemory {
  const std::byte* pointer = nullptr;
  Bytes bytes{};
  std::string_view name{};  ///< of the variable that it is of; empty: of none
};

struct SeenOp {
  std::int64_t step = 0;  ///< the framework's number of the run
  std::string_view node;
  std::string_view type;
  bool pure = false;  ///< its outputs depend on its inputs alone
};

/// Thread-safe. An op begins and ends in one thread, which shows what it uses in between.
class OpWatcher {
 public:
  OpWatcher() = default;
  virtual ~OpWatcher() = default;
  OpWatcher(const OpWatcher&) = delete;
  OpWatcher& operator=(const OpWatcher&) = delete;

  /// Whether any op is to be shown now.
  [[nodiscard]] virtual bool watches() const = 0;
  /// False if it is not told of this op further.
  [[nodiscard]] virtual bool begin_op(const SeenOp& op, TimeNs now) = 0;
  virtual void reads(SeenMemory memory) = 0;
  virtual void writes(SeenMemory memory) = 0;
  virtual void end_op(std::span<const SeenMemory> outputs, TimeNs now) = 0;
  /// Brought in from outside of the graph.
  virtual void is_input(SeenMemory memory) = 0;
};

}  // namespace spillway::tf
