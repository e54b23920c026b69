// SPDX-License-Identifier: Apache-2.0
// Storages that Python makes without an op: torch.UntypedStorage(n), and with it storage.clone(),
// copy.deepcopy, pickle.loads and files in torch's old format.
//
// torch takes their memory from c10::GetDefaultCPUAllocator(), past the allocator that is set for
// the CPU. Nobody but the caller knows the fresh storage yet, so its memory can be replaced.
#pragma once

#include "torch_headers.hpp"

namespace spillway::torch {

/// Gives a storage that was just made memory of the allocator that tensors have, and has that
/// allocator serve what it is resized to. From now on the engine may move it. `keep_contents`: they
/// are copied; otherwise they are as undefined as they were. Storages of other allocators, devices
/// and owners are left alone. The caller holds the only reference; any thread.
/// Throws c10::OutOfMemoryError; the storage keeps what it had then.
void manage_made_storage(c10::StorageImpl& storage, bool keep_contents);

/// Has the allocator that tensors have serve what the storage is resized to, also one that is older
/// than that allocator. Its memory stays where it is.
void serve_when_resized(c10::StorageImpl& storage);

}  // namespace spillway::torch
