// SPDX-License-Identifier: Apache-2.0
// A framework whose storages are plain objects, and ops that are spelled out call by call.
//
// Does what an adapter does and nothing more: a storage's memory is the engine's, an object is the
// handle that the engine owns from `bind` on, and accessors refuse while the engine revoked them.
// For tests of the engine only; needs the runtime layer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "spillway/runtime/exec/engine.hpp"

namespace spillway::testing {

/// Lives until the engine has released the handle, so longer than the storage.
struct FakeStorage {
  std::byte* pointer = nullptr;
  std::uint64_t bytes = 0;
  runtime::StorageRecord* record = nullptr;  ///< null: too small to move
  std::atomic<bool> accessible{true};
  std::atomic<bool> shown{false};  ///< not accessible, except for its address
  std::atomic<bool> handed_over{false};
  std::atomic<bool> movable{false};   ///< nobody but its thread knows its address
  std::atomic<bool> exported{false};  ///< foreign code has the address: never evicted
  std::mutex moving;                  ///< of the pointer; not beside its death

  /// The content is a function of a seed, so that every word can be checked.
  void fill(std::uint64_t seed) const {
    auto* words = reinterpret_cast<std::uint64_t*>(pointer);
    for (std::uint64_t i = 0; i < bytes / sizeof *words; ++i) words[i] = word(seed, i);
  }
  [[nodiscard]] bool holds(std::uint64_t seed) const {
    const auto* words = reinterpret_cast<const std::uint64_t*>(pointer);
    std::uint64_t differences = 0;
    for (std::uint64_t i = 0; i < bytes / sizeof *words; ++i)
      differences |= words[i] ^ word(seed, i);
    return differences == 0;
  }

 private:
  static std::uint64_t word(std::uint64_t seed, std::uint64_t index) {
    return (seed + 1) * 0x9e3779b97f4a7c15U + index * 0xbf58476d1ce4e5b9U;
  }
};

class FakeFramework : public runtime::Framework {
 public:
  bool may_evict(void* owner, const runtime::StorageRecord&) noexcept override {
    return !static_cast<FakeStorage*>(owner)->exported.load();
  }
  void revoke(void* owner, const runtime::StorageRecord&, const std::string& reason,
              runtime::Refusal refusal) noexcept override {
    auto& storage = *static_cast<FakeStorage*>(owner);
    storage.accessible.store(false);
    storage.shown.store(refusal == runtime::Refusal::kWriting);
    const std::lock_guard lock(mutex_);
    last_reason_ = reason;
  }
  void grant(void* owner, const runtime::StorageRecord&) noexcept override {
    auto& storage = *static_cast<FakeStorage*>(owner);
    storage.accessible.store(true);
    storage.shown.store(false);
  }
  bool move(void* owner, const runtime::StorageRecord&, std::byte* to) noexcept override {
    auto& storage = *static_cast<FakeStorage*>(owner);
    const std::lock_guard lock(storage.moving);
    if (!storage.movable.load()) return false;
    storage.pointer = to;
    return true;
  }
  bool handed_over(void* owner) noexcept override {
    return static_cast<FakeStorage*>(owner)->handed_over.load();
  }
  void release(void* owner) noexcept override {
    delete static_cast<FakeStorage*>(owner);
    released.fetch_add(1);
  }

  [[nodiscard]] std::string last_reason() {
    const std::lock_guard lock(mutex_);
    return last_reason_;
  }

  std::atomic<std::uint64_t> released{0};

 private:
  std::mutex mutex_;
  std::string last_reason_;
};

/// Memory from the engine, bound to a new handle. Throws OutOfBudget.
inline FakeStorage* make_storage(runtime::Engine& engine, std::uint64_t bytes) {
  auto storage = std::make_unique<FakeStorage>();
  storage->pointer = engine.allocate(bytes);
  storage->bytes = bytes;
  storage->record = engine.find(storage->pointer);
  FakeStorage* handle = storage.release();
  if (handle->record != nullptr) {
    engine.produced(*handle->record);  // pinned before it can be chosen
    engine.bind(*handle->record, handle, handle);
  }
  return handle;
}

/// The storage dies: its memory goes back, and its handle when the engine has noticed.
inline void drop_storage(runtime::Engine& engine, FakeStorage* storage) {
  const bool bound = storage->record != nullptr;
  {
    const std::lock_guard lock(storage->moving);
    storage->movable = false;
  }
  engine.free(storage->pointer);
  if (!bound) delete storage;
}

/// An outermost frame of the calling thread while it lives.
class FakeOp {
 public:
  explicit FakeOp(runtime::Engine& engine, std::uint64_t signature = 0, bool boundary = false)
      : engine_(engine) {
    engine_.begin_frame({.name = "fake::op", .signature = signature, .boundary = boundary});
  }
  ~FakeOp() { engine_.end_frame(); }
  FakeOp(const FakeOp&) = delete;
  FakeOp& operator=(const FakeOp&) = delete;

  bool read(const FakeStorage& storage) { return use(storage, runtime::Access::kRead); }
  bool write(const FakeStorage& storage) { return use(storage, runtime::Access::kWrite); }

 private:
  bool use(const FakeStorage& storage, runtime::Access access) {
    return storage.record == nullptr || engine_.use(*storage.record, access);
  }

  runtime::Engine& engine_;
};

}  // namespace spillway::testing
