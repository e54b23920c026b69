// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateBenignRaceSized(const char* file, int line, const volatile void* memory,
                                        std::size_t bytes, const char* why);
#endif

namespace spillway::testing {

/// A program may write a storage while it is copied out: that copy is thrown away. The thread
/// sanitizer is told so, for this memory alone; elsewhere it does nothing.
inline void mean_race([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_THREAD__
  AnnotateBenignRaceSized(__FILE__, __LINE__, memory, bytes, "written while it is copied out");
#endif
}

}  // namespace spillway::testing
