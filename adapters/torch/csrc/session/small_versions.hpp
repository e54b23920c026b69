// SPDX-License-Identifier: Apache-2.0
// Versions of the bytes of storages that no engine moves: weights of norms, biases, scalars.
//
// A counter serves all storages whose addresses hash alike: a write of one of them makes the others
// look written, too, which costs a recomputation that could have been and nothing else. Any thread,
// no lock.
#pragma once

#include <cstdint>

#include "torch_headers.hpp"

namespace spillway::torch {

[[nodiscard]] std::uint32_t version_of_small(const c10::StorageImpl& storage);
/// It is about to be written.
void begin_small_version(const c10::StorageImpl& storage);
/// Any of them may have been written unseen.
void begin_all_small_versions();
/// Its memory is handed to foreign code, which may write it at any time.
void expect_unseen_small_writes(const c10::StorageImpl& storage);
/// Whether its version says all.
[[nodiscard]] bool shows_small_writes(const c10::StorageImpl& storage);

}  // namespace spillway::torch
