// SPDX-License-Identifier: Apache-2.0
// The flag by which a StorageImpl refuses access to its data.
#pragma once

#include <string>

#include "torch_headers.hpp"

namespace spillway::torch {

/// Every read or write of the storage's data through torch raises `reason` until cleared. The flag
/// is set by the function that Dynamo uses for storages it has released; it releases nothing
/// itself.
void refuse_access(c10::StorageImpl& storage, const std::string& reason);

/// Only writes raise, with torch's own words; reading gives the address.
void refuse_writing(c10::StorageImpl& storage);

/// Undoes both.
void allow_access(c10::StorageImpl& storage);

}  // namespace spillway::torch
