// SPDX-License-Identifier: Apache-2.0
// Turns what the engine sees into the trace of one training step.
//
//     boundary            boundary            boundary
//        |---- step 1 ------|---- step 2 ------|---- step 3 (unfinished) --
//                            the last complete step is what `trace` returns
//
// An op's row is opened when it begins, so rows are in the order of beginnings, whatever threads
// they ran on. A program that never marks a boundary is one long step, cut off at kMostOps.
// Thread-safe by a mutex of its own, which is taken last.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::runtime {

class TraceRecorder {
 public:
  /// Ops recorded at most: some 200 MB of rows. Training steps have 1e3 to 2e5.
  static constexpr std::size_t kMostOps = 1'000'000;

  /// A step ends and the next begins with the op that follows.
  void boundary();
  void begin_op(const char* name, TimeNs now);
  /// The calling thread's op uses a storage. `made_by` names it in the trace; may be null.
  void use(StorageId id, Bytes bytes, bool writes, const char* made_by);
  void allocated(StorageId id, Bytes bytes);
  void freed(StorageId id);
  /// `grown`: most that was allocated within the op at once.
  void end_op(TimeNs now, Bytes grown);

  /// The last complete step, or what there is of the first; nothing before any op.
  [[nodiscard]] std::optional<Trace> trace() const;

 private:
  struct Life {
    std::uint32_t row;
    bool born;  ///< created within the step
  };
  struct Step {
    Trace trace;  // ops stay in `ops` until the step is built
    std::vector<TraceOp> ops;
    std::unordered_map<std::uint64_t, Life> lives;
    std::vector<std::optional<std::size_t>> born_at;
    std::vector<std::optional<std::size_t>> freed_at;
    std::vector<std::optional<std::size_t>> last_use;
  };

  StorageId row_of(StorageId id, Bytes bytes, bool born);
  static Trace build(const Step& step);

  mutable std::mutex mutex_;
  Step current_;
  std::optional<Step> complete_;
  std::uint64_t generation_ = 0;  // of `current_`: an op open over a boundary belongs to none
};

}  // namespace spillway::runtime
