// SPDX-License-Identifier: Apache-2.0
#include "session/adoption.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "session/engines.hpp"
#include "threads/call_stack.hpp"
#include "threads/interpreter_lock.hpp"
#include "threads/other_threads.hpp"

namespace spillway::torch {

namespace {

using ::torch::autograd::impl::get_view_autograd_meta;
using ::torch::autograd::impl::try_get_grad_accumulator;

// Storages that could be managed, and the references to them and to their tensors that are
// accounted for.
class Accounts {
 public:
  explicit Accounts(Bytes min_size)
      : stock_(c10::GetDefaultCPUAllocator()->raw_deleter()), min_size_(min_size) {}

  /// Each tensor once.
  void add_object(c10::TensorImpl* tensor) {
    ++known_[tensor];
    const at::Tensor alias(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(tensor));
    if (alias.is_leaf() && alias.grad().defined()) ++known_[alias.grad().unsafeGetTensorImpl()];
    if (try_get_grad_accumulator(alias) != nullptr) ++known_[tensor];
    const auto* const view = get_view_autograd_meta(alias);
    if (view != nullptr && view->has_bw_view()) {
      ++known_[view->get_backward_view().base_.unsafeGetTensorImpl()];
    }
  }

  struct Older {
    c10::StorageImpl* storage;
    Bytes bytes;
  };

  /// Those that are nobody else's, the largest last; and the others, whose bytes are added up.
  std::vector<Older> free_ones() {
    std::unordered_map<c10::StorageImpl*, std::size_t> holders;
    for (const auto& [tensor, references] : known_) {
      c10::StorageImpl* const storage = older_storage(*tensor);
      if (storage == nullptr) continue;
      const bool only_those = c10::raw::intrusive_ptr::use_count(tensor) == references;
      holders[storage] += only_those ? 1 : 0;
    }
    std::vector<Older> result;
    for (const auto& [storage, count] : holders) {
      const Older older{.storage = storage, .bytes = Bytes{storage->nbytes()}};
      if (storage->resizable() && c10::raw::intrusive_ptr::use_count(storage) == count) {
        result.push_back(older);
      } else {
        leave(older);
      }
    }
    std::ranges::sort(result, {}, &Older::bytes);
    return result;
  }

  void leave(const Older& older) { left_ += older.bytes; }
  [[nodiscard]] Bytes left() const { return left_; }

 private:
  [[nodiscard]] c10::StorageImpl* older_storage(c10::TensorImpl& tensor) const {
    if (!tensor.has_storage() || tensor.key_set().has(c10::DispatchKey::Python)) return nullptr;
    c10::StorageImpl* const storage = tensor.unsafe_storage().unsafeGetStorageImpl();
    const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
    const bool older = data.get() != nullptr && data.get_deleter() == stock_;
    return older && Bytes{storage->nbytes()} >= min_size_ ? storage : nullptr;
  }

  c10::DeleterFnPtr stock_;
  Bytes min_size_;
  std::unordered_map<c10::TensorImpl*, std::size_t> known_;
  Bytes left_{};
};

enum class Outcome : std::uint8_t { kTaken, kNoRoom, kOthersRan };

// Where others ran meanwhile the storage may be gone, or in use.
Outcome take_in(const Accounts::Older& older) {
  const std::uint64_t let_go_before = times_interpreter_was_let_go();
  c10::DataPtr fresh;
  bool fits = true;
  try {
    fresh = c10::GetCPUAllocator()->allocate(older.bytes.count);
  } catch (const c10::Error&) {
    fits = false;
  }
  if (times_interpreter_was_let_go() != let_go_before) return Outcome::kOthersRan;
  if (!fits) return Outcome::kNoRoom;
  c10::StorageImpl& storage = *older.storage;
  std::memcpy(fresh.mutable_get(), storage._mutable_data_ptr_no_checks().get(), older.bytes.count);
  storage.set_data_ptr_noswap(std::move(fresh));
  // From here on it may leave for the next.
  static_cast<void>(Engines::find_bound(storage));
  return Outcome::kTaken;
}

// The size of the smallest storage that was looked for when none was left.
std::atomic<std::uint64_t> g_none_left{~std::uint64_t{0}};

}  // namespace

bool may_be_older() {
  return Engines::get().main().is_cpu() && main_engine().min_size().count < g_none_left.load();
}

std::string adopt(std::span<c10::TensorImpl* const> tensors) {
  runtime::Engine& engine = main_engine();
  if (!engine.watching()) return {};
  Accounts accounts(engine.min_size());
  for (c10::TensorImpl* const tensor : tensors) accounts.add_object(tensor);
  const std::vector<Accounts::Older> storages = accounts.free_ones();
  bool nobody_runs = storages.empty() || (is_inside_no_op() && all_others_sleep());
  for (const Accounts::Older& older : storages) {
    const Outcome outcome = nobody_runs ? take_in(older) : Outcome::kOthersRan;
    nobody_runs = outcome != Outcome::kOthersRan;
    if (outcome != Outcome::kTaken) accounts.leave(older);
  }
  if (accounts.left().count == 0) {
    g_none_left.store(engine.min_size().count);
    return {};
  }
  return fmt::format(
      "tensors of {} that were made before enable() stay outside the budget: {}",
      to_string(accounts.left()),
      nobody_runs ? "other code holds their memory, or they do not fit"
                  : "another thread was running, which may use them. Call enable() again while "
                    "none does");
}

}  // namespace spillway::torch
