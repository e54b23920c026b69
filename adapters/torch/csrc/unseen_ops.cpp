// SPDX-License-Identifier: Apache-2.0
#include "unseen_ops.hpp"

#include <dlfcn.h>
#include <unwind.h>

#include <algorithm>
#include <mutex>
#include <string_view>
#include <vector>

namespace spillway::torch {

namespace {

struct Threads {
  std::mutex mutex;
  std::vector<const WatchedThread*> all;

  // Never destroyed: threads may end after main has returned.
  static Threads& get() {
    static auto* threads = new Threads();
    return *threads;
  }
};

// AutogradCPU is never in the set: guards exclude what all backends' keys have in common, and the
// few keys without a backend, of which this is one.
bool excludes_autograd(const c10::impl::PODLocalDispatchKeySet& keys) {
  return keys.excluded().has(c10::DispatchKey::AutogradOther);
}

// Inference mode takes this key out of the set, ops put it into the excluded ones.
bool infers(const c10::impl::PODLocalDispatchKeySet& keys) {
  return !keys.included().has(c10::DispatchKey::ADInplaceOrView);
}

_Unwind_Reason_Code count_entry(_Unwind_Context* context, void* count) {
  Dl_info info{};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an instruction's address
  auto* const address = reinterpret_cast<void*>(_Unwind_GetIP(context));
  if (::dladdr(address, &info) == 0 || info.dli_sname == nullptr) return _URC_NO_REASON;
  const std::string_view symbol = info.dli_sname;  // at::_ops::add_Tensor::call, mangled
  const bool enters = symbol.find("2at4_ops") != symbol.npos ||
                      symbol.find("10Dispatcher9callBoxed") != symbol.npos;
  if (enters) ++*static_cast<int*>(count);
  return _URC_NO_REASON;
}

// How many ops are under way on this thread's stack. Takes some tens of microseconds.
int ops_on_stack() {
  int count = 0;
  _Unwind_Backtrace(count_entry, &count);
  return count;
}

}  // namespace

WatchedThread::WatchedThread() : keys_(&c10::impl::raw_local_dispatch_key_set) {
  Threads& threads = Threads::get();
  const std::lock_guard lock(threads.mutex);
  threads.all.push_back(this);
}

WatchedThread::~WatchedThread() {
  Threads& threads = Threads::get();
  const std::lock_guard lock(threads.mutex);
  std::erase(threads.all, this);
}

// The other thread writes its keys meanwhile: what is read is what they were a moment ago, or are
// now. An op that begins at this very moment is seen, since the hook is on.
bool WatchedThread::may_be_inside_unseen_op() const {
  return !seen_.load(std::memory_order_relaxed) && excludes_autograd(*keys_) && !infers(*keys_);
}

bool began_at_top() {
  return !excludes_autograd(c10::impl::raw_local_dispatch_key_set) || ops_on_stack() <= 1;
}

bool others_may_be_inside_unseen_ops(const WatchedThread& self) {
  Threads& threads = Threads::get();
  const std::lock_guard lock(threads.mutex);
  return std::ranges::any_of(threads.all, [&self](const WatchedThread* thread) {
    return thread != &self && thread->may_be_inside_unseen_op();
  });
}

}  // namespace spillway::torch
