// SPDX-License-Identifier: Apache-2.0
// The rows of a recorded step: storages with their lives, ops with what they touch. Knows nothing
// of torch.
//
//     begin_step         begin_step           trace
//        |---- step 1 -----|------ step 2 ------|
//                           what the trace tells
//
// A storage is named by its row, which begin_step hands out anew: who keeps rows asks `moved`.
// Not thread-safe. Units: bytes.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::torch {

/// Texts and their numbers; number 0 is the empty text.
class Texts {
 public:
  Texts() { number(""); }
  std::uint32_t number(std::string_view text);
  [[nodiscard]] const std::string& operator[](std::uint32_t number) const { return texts_[number]; }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

/// The op that an addition becomes which devices do in place.
inline constexpr std::string_view kAdditionInPlace = "aten::add_.Tensor";

inline constexpr std::uint32_t kNoRow = std::numeric_limits<std::uint32_t>::max();

struct RecordedOp {
  std::uint32_t name = 0;
  std::uint32_t source = 0;
  std::uint32_t module = 0;
  std::uint32_t thread = 0;
  std::optional<std::uint64_t> flop{};
  std::uint64_t bytes = 0;
  Arithmetic arithmetic = Arithmetic::kUnknown;
  bool recomputable = false;
  std::uint64_t signature = 0;
  std::vector<std::uint32_t> reads{};
  std::vector<std::uint32_t> writes{};
  std::vector<std::uint32_t> creates{};
};

class StepRows {
 public:
  static constexpr std::size_t kBeforeStep = std::numeric_limits<std::size_t>::max();

  /// Removes ops and dead storages. Row r of the living is now `moved()[r]`.
  void begin_step();
  [[nodiscard]] const std::vector<std::uint32_t>& moved() const { return moved_; }

  std::uint32_t add_storage(Bytes bytes);
  /// The op's row is final but for `absorb`. What it creates is born with it.
  void add_op(RecordedOp op);
  /// The storage is freed by the latest op.
  void free(std::uint32_t row);
  void describe(std::uint32_t row, StorageRole role, std::string_view name);
  [[nodiscard]] bool described(std::uint32_t row) const {
    return storages_[row].role != StorageRole::kUnknown;
  }
  /// The latest op, an addition, was done in place: `result`, which it created, is `operand`, whose
  /// last holder has just let go. `signature` is that of the addition in place.
  void absorb(std::uint32_t operand, std::uint32_t result, std::uint64_t signature);

  [[nodiscard]] std::size_t op_count() const { return ops_.size(); }
  [[nodiscard]] Texts& texts() { return texts_; }

  /// The step since begin_step, with ops of no duration.
  [[nodiscard]] Trace trace() const;

 private:
  struct Storage {
    Bytes bytes{};
    StorageRole role = StorageRole::kUnknown;
    std::uint32_t name = 0;
    std::size_t born = kBeforeStep;
    std::optional<std::size_t> freed{};
    std::optional<std::uint32_t> became{};  ///< absorbed by this row
    std::uint64_t origin = 0;               ///< equal for what equal ops of different steps create
  };

  [[nodiscard]] StorageRole role_of(const Storage& storage) const;
  [[nodiscard]] std::vector<std::optional<std::uint32_t>> successors() const;

  Texts texts_;
  std::vector<Storage> storages_;
  std::vector<RecordedOp> ops_;
  std::vector<std::uint32_t> moved_;
};

}  // namespace spillway::torch
