// SPDX-License-Identifier: Apache-2.0
// Whether a program may find a card, asked without the driver, which is not to be started before
// the program starts it.
#pragma once

#include <filesystem>

namespace spillway::tf {

/// By the files that drivers make below `root`, and the value of CUDA_VISIBLE_DEVICES, null where
/// it is not set. A driver may be there for no card. Any thread.
bool card_in_sight(const char* visible, const std::filesystem::path& root = "/");

}  // namespace spillway::tf
