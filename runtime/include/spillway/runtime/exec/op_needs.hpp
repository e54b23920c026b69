// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// The allocations of ops when they ran before: the most bytes that were live at a time of those
/// made inside, results and workspace. Direct-mapped by a key that tells apart ops of different
/// needs: a collision replaces.
///
///     begin(key)   allocated(+) freed(-) ...   end()
///
/// The least of several runs counts. One run does not count yet: kernels prepare themselves in
/// their first. One per thread, without locks; 96 KiB once an op has ended.
class OpNeeds {
 public:
  /// Key 0: the op is not remembered.
  void begin(std::uint64_t key) {
    key_ = key;
    now_ = most_ = {};
    failed_ = false;
  }
  void allocated(Bytes bytes) {
    now_ += bytes;
    if (most_ < now_) most_ = now_;
  }
  void freed(Bytes bytes) { now_ = saturating_sub(now_, bytes); }
  /// The op could not get what it needs, so what it allocated says nothing.
  void fail() { failed_ = true; }
  void end() {
    if (failed_ || key_ == 0) return;
    if (entries_.empty()) entries_.resize(kEntries);
    Entry& entry = entries_[key_ % kEntries];
    if (entry.key != key_) {
      entry = {.key = key_, .need = most_, .repeated = false};
      return;
    }
    entry.repeated = true;
    if (most_ < entry.need) entry.need = most_;
  }

  /// The most that the op that ended had allocated at once.
  [[nodiscard]] Bytes most() const { return most_; }
  /// The bytes that the op that began will allocate at least; zero if it was not seen before.
  [[nodiscard]] Bytes known() const {
    if (entries_.empty()) return {};
    const Entry& entry = entries_[key_ % kEntries];
    return entry.key == key_ && entry.repeated ? entry.need : Bytes{};
  }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Bytes need{};
    bool repeated = false;
  };
  static constexpr std::size_t kEntries = 4096;

  std::uint64_t key_ = 0;
  Bytes now_{};
  Bytes most_{};
  bool failed_ = false;
  std::vector<Entry> entries_;
};

}  // namespace spillway::runtime
