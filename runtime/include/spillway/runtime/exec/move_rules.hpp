// SPDX-License-Identifier: Apache-2.0
// The rules by which storages may leave the device now, or not.
//
//     mode        decides whether anything leaves at all
//     min_size    smaller storages never leave
//     blind       ops run that are not seen, so nothing leaves for now
//     recomputes  storages may be dropped and made again
//     overbook    what does not fit may exceed the budget
//
// The settings change it when the engine starts and stops, under the engine's lock. Ops read it
// without the lock while that happens, so what they read is atomic. Throws nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/settings.hpp"

namespace spillway::runtime {

class MoveRules {
 public:
  // Any thread, no lock.
  [[nodiscard]] Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  /// Whether ops have to be seen: a budget is enforced, or something is recorded.
  [[nodiscard]] bool watching() const { return watching_.load(std::memory_order_relaxed); }
  [[nodiscard]] Bytes min_size() const { return {min_size_.load(std::memory_order_relaxed)}; }
  /// Whether a storage may be dropped that the op which made it can make again.
  [[nodiscard]] bool recomputes() const { return recomputes_.load(std::memory_order_relaxed); }
  /// While ops are not seen nothing is evicted, since a running op's inputs are not known, and
  /// allocations may exceed the budget.
  [[nodiscard]] bool blind() const {
    return blind_.load(std::memory_order_relaxed) || reaching_.load(std::memory_order_relaxed) != 0;
  }
  void set_blind(bool blind) { blind_.store(blind, std::memory_order_relaxed); }
  /// An op begins or ends of which it is not known what it uses. Blind in between.
  void begin_reach() { reaching_.fetch_add(1); }
  void end_reach() { reaching_.fetch_sub(1); }

  // Under the engine's lock.
  void set_mode(Mode mode) { mode_.store(mode); }
  void set_watching(bool watching) { watching_.store(watching); }
  /// The rest of what the settings say. In fuzz mode every allocation moves, however small: that is
  /// what it is for.
  void set_limits(const Settings& settings, Mode mode, bool on_card) {
    min_size_.store(mode == Mode::kFuzz ? 1 : settings.min_size.count);
    const bool tries_all = mode == Mode::kFuzz && !on_card;
    recomputes_.store(settings.recompute == Recompute::kOn ||
                      (settings.recompute == Recompute::kAuto && tries_all));
    overbook_ = settings.overbook;
    start_at_ = settings.start_at;
  }
  /// SPILLWAY_OVER=allow.
  [[nodiscard]] bool overbook() const { return overbook_; }
  /// SPILLWAY_START_AT: the share of the budget in use at which storages begin to leave.
  [[nodiscard]] double start_at() const { return start_at_; }

 private:
  std::atomic<Mode> mode_{Mode::kOff};
  std::atomic<bool> watching_{false};
  std::atomic<std::uint64_t> min_size_{0};
  std::atomic<bool> recomputes_{false};
  std::atomic<bool> blind_{false};
  std::atomic<std::uint32_t> reaching_{0};  // ops between begin_reach and end_reach
  bool overbook_ = Settings{}.overbook;
  double start_at_ = Settings{}.start_at;
};

}  // namespace spillway::runtime
