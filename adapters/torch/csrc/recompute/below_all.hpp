// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "torch_headers.hpp"

namespace spillway::torch {

/// While it lives, ops of the thread run below autograd, autocast and whatever transforms the op
/// that it is in is under, and no callback sees them.
class BelowAll {
 public:
  BelowAll() : keys_(without_wrappers()) {}

 private:
  static c10::impl::LocalDispatchKeySet without_wrappers() {
    c10::impl::PODLocalDispatchKeySet keys{};
    keys.set_included(c10::default_included_set.remove(c10::DispatchKey::ADInplaceOrView));
    keys.set_excluded(c10::default_excluded_set | c10::autocast_dispatch_keyset |
                      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    return c10::impl::LocalDispatchKeySet(keys);
  }

  at::DisableRecordFunctionGuard unseen_;
  c10::impl::ForceDispatchKeyGuard keys_;
};

}  // namespace spillway::torch
