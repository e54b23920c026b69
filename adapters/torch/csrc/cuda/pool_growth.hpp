// SPDX-License-Identifier: Apache-2.0
// When torch's own pool on graphics cards takes more memory of the card. It tells callbacks before
// it does, which other libraries use to give memory back (c10/cuda/CUDACachingAllocator.h,
// FreeMemoryCallback).
#pragma once

#include <atomic>

namespace spillway::torch::cuda {

/// `grows` is set each time from now on, by any thread, with the pool's lock held. Once. False:
/// this torch has no such callbacks.
bool tell_growth(std::atomic<bool>& grows);

}  // namespace spillway::torch::cuda
