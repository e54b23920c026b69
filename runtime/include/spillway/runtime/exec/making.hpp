// SPDX-License-Identifier: Apache-2.0
// The op that made a storage's bytes, as something that can be run again.
//
//     x ---[gelu]---> y      y is dropped instead of copied away: when it is asked for, gelu runs
//                            again with x and puts its result where y was
//
// The adapter that sees an op end makes one and gives it to Engine::made. The engine decides what
// is dropped, and holds what a dropped storage will be made from (Recipe).
//
// A source is a storage at a version: every write begins another one. A source that died or was
// written since can be had if it was itself made by an op that can be run again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"

namespace spillway::runtime {

class Making;
struct StorageRecord;

/// A result of an op.
struct Made {
  std::shared_ptr<const Making> by;  ///< null: unknown
  std::uint32_t output = 0;          ///< which of its results
};

class Making {
 public:
  /// What the op read.
  struct Source {
    StorageRecord* record = nullptr;
    StorageId id{};             ///< of the record's storage then
    std::uint32_t version = 0;  ///< of its bytes then
    Bytes bytes{};
    Made made;  ///< of those bytes
  };

  /// `cost`: how long the op takes, as far as it is known.
  explicit Making(TimeNs cost = 0) : cost_(cost) {}
  virtual ~Making() = default;
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  /// Of the op, for people.
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// Whether what it reads besides its sources is still there, and as it was. Called with the
  /// engine's lock held: takes none.
  [[nodiscard]] virtual bool usable() const noexcept = 0;

  /// Runs the op. `sources` are the addresses of the sources' bytes, in order; the result goes to
  /// `to`, which has the room of it. Memory that it takes on the way is the engine's. On a device
  /// the work goes to the calling thread's stream. Called without the lock; throws if it fails.
  virtual void run(std::span<std::byte* const> sources, std::uint32_t output,
                   std::byte* to) const = 0;

  [[nodiscard]] TimeNs cost() const { return cost_; }
  [[nodiscard]] const std::vector<Source>& sources() const { return sources_; }
  /// The source whose bytes the op overwrites with its result, or kNone.
  [[nodiscard]] std::size_t overwritten() const { return overwritten_; }
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// Before anyone else sees it.
  void set_cost(TimeNs cost) { cost_ = cost; }
  /// Once, before anyone else sees it.
  void set_sources(std::vector<Source> sources) {
    sources_ = std::move(sources);
    for (const Source& source : sources_) {
      if (source.made.by != nullptr && source.made.by->depth_ >= depth_)
        depth_ = source.made.by->depth_ + 1;
    }
  }
  void overwrites(std::size_t source) { overwritten_ = source; }
  /// Ops in the longest chain of those that it knows, itself included.
  [[nodiscard]] std::uint32_t depth() const { return depth_; }

 private:
  TimeNs cost_;
  std::vector<Source> sources_;
  std::size_t overwritten_ = kNone;
  std::uint32_t depth_ = 1;
};

}  // namespace spillway::runtime
