// SPDX-License-Identifier: Apache-2.0
#include "session/access_flag.hpp"

namespace spillway::torch {

namespace {

// Torch 2.11 has no public way to clear what it sets, and no version one for refusing to write. An
// explicit instantiation may name private members (C++20 [temp.spec]/6); a renamed member is a
// compile error, not a surprise.
template <class Tag, typename Tag::Type kMember>
struct MemberAccess {
  friend typename Tag::Type member(Tag) { return kMember; }
};
struct RefuseAll {
  using Type = bool c10::StorageImpl::*;
  friend Type member(RefuseAll);
};
struct RefuseWriting {
  using Type = bool c10::StorageImpl::*;
  friend Type member(RefuseWriting);
};
struct Refresh {
  using Type = void (c10::StorageImpl::*)();
  friend Type member(Refresh);
};
template struct MemberAccess<RefuseAll, &c10::StorageImpl::throw_on_immutable_data_ptr_>;
template struct MemberAccess<RefuseWriting, &c10::StorageImpl::throw_on_mutable_data_ptr_>;
template struct MemberAccess<Refresh, &c10::StorageImpl::refresh_has_data_ptr_check>;

}  // namespace

void refuse_access(c10::StorageImpl& storage, const std::string& reason) {
  storage.release_data_and_set_meta_custom_data_ptr_error_msg_(reason);
}

void refuse_writing(c10::StorageImpl& storage) {
  storage.*member(RefuseAll{}) = false;
  storage.set_throw_on_mutable_data_ptr();
}

void allow_access(c10::StorageImpl& storage) {
  storage.*member(RefuseAll{}) = false;
  storage.*member(RefuseWriting{}) = false;
  (storage.*member(Refresh{}))();
}

}  // namespace spillway::torch
