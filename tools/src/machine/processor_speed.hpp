// SPDX-License-Identifier: Apache-2.0
// Measures how fast the processor of this machine calculates, and passes bytes to and from memory:
// the two roofs of a roofline (Williams et al., CACM 52(4), 2009). Uses every processor that this
// process may run on, for about a second in all. Rates are per second of processor time, the best
// of several short runs: what else runs on the machine costs the figures little.
#pragma once

#include <cstddef>
#include <string>

#include "spillway/base/bytes.hpp"

namespace spillway::tools {

struct ProcessorSpeed {
  unsigned processors = 0;   ///< that this process may run on
  std::string instructions;  ///< `AVX-512`, `AVX2`, or `SSE2`: what the multiply-adds used
  double float32_rate = 0;   ///< operations: a multiply-add is two
  double float64_rate = 0;   ///< likewise
  double memory_rate = 0;    ///< bytes read plus bytes written
  Bytes memory_touched{};    ///< by one run of the measurement: more than caches hold
};

/// `most_bytes` is what the measurement of memory may allocate; released at return.
ProcessorSpeed measure_processor_speed(Bytes most_bytes);

}  // namespace spillway::tools
