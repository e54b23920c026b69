// SPDX-License-Identifier: Apache-2.0
// Memory that is shared with numpy or through DLPack stays, but only while it is shared.
//
//     numpy array -> alias tensor -> alias storage -> deleter -> the storage, and a pin on it
//
// The exported tensor is an alias with a storage of its own over the same memory. Whoever holds the
// export holds the alias storage, in whatever way; when the last one lets go its deleter ends the
// pin. Nothing has to be known of the importing side.
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include "session/engines.hpp"

namespace spillway::torch {

namespace {

struct Export {
  c10::Storage storage;
  Managed managed;
};

at::Tensor export_alias(const at::Tensor& tensor) {
  // First, since it gives a storage that shared its memory until it is written memory of its own.
  static_cast<void>(tensor.mutable_data_ptr());
  c10::Storage storage = tensor.storage();
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  const Managed managed = Engines::find(*impl);
  if (!managed) return tensor.detach();
  managed.engine().begin_export(*managed.record);
  // As torch does for the storage it exports itself: a resize would free the shared memory.
  impl->set_resizable(false);
  auto* context = new Export{std::move(storage), managed};
  at::Tensor alias = at::for_blob(tensor.mutable_data_ptr(), tensor.sizes())
                         .strides(tensor.strides())
                         .context(context,
                                  [](void* pointer) {
                                    auto* ended = static_cast<Export*>(pointer);
                                    ended->managed.engine().end_export(*ended->managed.record);
                                    delete ended;
                                  })
                         .options(tensor.options())
                         .target_device(tensor.device())
                         .make_tensor();
  alias._set_conj(tensor.is_conj());
  alias._set_neg(tensor.is_neg());
  return alias;
}

}  // namespace

}  // namespace spillway::torch

TORCH_LIBRARY(spillway, library) {
  library.def("export_alias(Tensor tensor) -> Tensor", &spillway::torch::export_alias);
}
