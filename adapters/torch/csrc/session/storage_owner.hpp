// SPDX-License-Identifier: Apache-2.0
// The handle that ties a StorageImpl to the engine's record of its memory.
//
// Only weak references are held. A strong reference to a tensor would stop autograd from stealing
// gradients; taking one to a storage that has a Python object may take the GIL, which must not
// happen under the engine's lock. A weak reference keeps the StorageImpl's memory valid even while
// it dies, which is all that reading and writing its access flag needs.
#pragma once

#include <atomic>
#include <optional>

#include "spillway/runtime/exec/framework.hpp"
#include "spillway/runtime/exec/storage_record.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

struct StorageOwner {
  /// `shown_by`: the tensor that an op made with it, if one did.
  StorageOwner(c10::StorageImpl& described, c10::TensorImpl* shown_by);

  c10::StorageImpl* impl;  ///< valid memory while this handle lives
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  c10::TensorImpl* maker;  ///< likewise, or null
  std::optional<c10::weak_intrusive_ptr<c10::TensorImpl>> made;
};

/// torch's side of the engine's interface to a framework, for the storages of one device. `deleter`
/// marks memory as the engine's.
class TorchFramework final : public runtime::Framework {
 public:
  TorchFramework(c10::Device device, c10::DeleterFnPtr deleter)
      : device_(device), deleter_(deleter) {}

  bool may_evict(void* owner, const runtime::StorageRecord& record) noexcept override;
  void revoke(void* owner, const runtime::StorageRecord& record, const std::string& reason,
              runtime::Refusal refusal) noexcept override;
  void grant(void* owner, const runtime::StorageRecord& record) noexcept override;
  bool move(void* owner, const runtime::StorageRecord& record, std::byte* to) noexcept override;
  bool handed_over(void* owner) noexcept override;
  void release(void* owner) noexcept override;
  void* let_others_run() override;
  void run_again(void* held) override;
  runtime::ShortageWords shortage_words(const std::string& op) override;

  /// Evicted storages also lose their pointer, as they would on an accelerator.
  void set_null_pointers(bool null_pointers) { null_pointers_ = null_pointers; }

 private:
  c10::Device device_;
  c10::DeleterFnPtr deleter_;
  std::atomic<bool> null_pointers_{false};
};

}  // namespace spillway::torch
