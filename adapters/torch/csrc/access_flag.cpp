// SPDX-License-Identifier: Apache-2.0
#include "access_flag.hpp"

namespace spillway::torch {

namespace {

// Torch 2.11 sets the flag but has no public way to clear it. An explicit instantiation may name
// private members (C++20 [temp.spec]/6); a renamed member is a compile error, not a surprise.
template <class Tag, typename Tag::Type Member>
struct MemberAccess {
  friend typename Tag::Type member(Tag) { return Member; }
};
struct ThrowFlag {
  using Type = bool c10::StorageImpl::*;
  friend Type member(ThrowFlag);
};
struct RefreshFlag {
  using Type = void (c10::StorageImpl::*)();
  friend Type member(RefreshFlag);
};
template struct MemberAccess<ThrowFlag, &c10::StorageImpl::throw_on_immutable_data_ptr_>;
template struct MemberAccess<RefreshFlag, &c10::StorageImpl::refresh_has_data_ptr_check>;

// A template, so that the branch for the other torch is not compiled.
template <class Storage>
void clear_flag(Storage& storage) {
  if constexpr (requires { storage.clear_data_ptr_access_error_msg_(); }) {
    storage.clear_data_ptr_access_error_msg_();
  } else {
    storage.*member(ThrowFlag{}) = false;
    (storage.*member(RefreshFlag{}))();
  }
}

}  // namespace

void refuse_access(c10::StorageImpl& storage, const std::string& reason) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(reason);
}

void allow_access(c10::StorageImpl& storage) { clear_flag(storage); }

}  // namespace spillway::torch
