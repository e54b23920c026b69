// SPDX-License-Identifier: Apache-2.0
// Steps of four to seven ops, small enough to search all schedules.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "spillway/trace/trace.hpp"

namespace spillway::planning {

class TinyStep {
 public:
  explicit TinyStep(std::uint64_t seed) : random_(seed) {}

  /// Forward ops that save their outputs, backward ops that read them in turn.
  Trace chain(int layers) {
    std::vector<StorageId> saved;
    for (int i = 0; i < layers; ++i) {
      const std::vector<StorageId> reads = saved.empty() ? saved : std::vector{saved.back()};
      saved.push_back(op(reads, {}, i > 0));
    }
    StorageId gradient = kNoStorage;
    for (int i = layers - 1; i >= 0; --i) {
      std::vector<StorageId> reads{saved[static_cast<std::size_t>(i)]};
      if (gradient != kNoStorage) reads.push_back(gradient);
      const std::vector<StorageId> dead = reads;
      gradient = op(reads, dead, false, i == 0);
    }
    return std::move(trace_);
  }

  /// One output read by two branches, by their sum and at the end.
  Trace branch() {
    const StorageId stem = op({}, {}, false);
    const StorageId left = op({stem}, {}, true);
    const StorageId right = op({stem}, {}, true);
    const StorageId sum = op({left, right}, {}, true);
    const StorageId back = op({sum, right}, {sum, right}, false);
    const StorageId more = op({back, left}, {back, left}, false);
    op({more, stem}, {more, stem}, false, true);
    return std::move(trace_);
  }

  /// A chain with a storage that lives on, read early and late, and written last if asked for.
  Trace weights(int count, bool written) {
    std::vector<StorageId> weights(static_cast<std::size_t>(count));
    for (StorageId& weight : weights) weight = storage(true);
    const StorageId first = op({weights[0]}, {}, true);
    const StorageId second = op({first, weights.back()}, {}, true);
    const StorageId back = op({second, weights.back()}, {second}, false);
    const StorageId last = op({back, first}, {back, first}, false);
    op({last, weights[0]}, {last}, false, true, written ? weights : std::vector<StorageId>{});
    return std::move(trace_);
  }

 private:
  std::uint64_t any(std::uint64_t least, std::uint64_t most) {
    return std::uniform_int_distribution<std::uint64_t>(least, most)(random_);
  }
  StorageId storage(bool persistent = false) {
    return trace_.add(
        TraceStorage{.bytes = Bytes{any(5, 20) * 100'000},
                     .role = persistent ? StorageRole::kParameter : StorageRole::kActivation,
                     .persistent = persistent});
  }
  /// Returns what it creates; the last op creates nothing.
  StorageId op(const std::vector<StorageId>& reads, const std::vector<StorageId>& frees,
               bool recomputable, bool last = false, const std::vector<StorageId>& writes = {}) {
    const StorageId made = last ? kNoStorage : storage();
    TraceOp op{.name = "op",
               .duration_ns = static_cast<TimeNs>(any(2, 15) * 100'000),
               .recomputable = recomputable,
               .workspace = Bytes{any(0, 3) * 100'000},
               .reads = reads,
               .writes = writes,
               .frees = frees};
    if (!last) op.creates = {made};
    trace_.add(op);
    return made;
  }

  std::mt19937_64 random_;
  Trace trace_;
};

}  // namespace spillway::planning
