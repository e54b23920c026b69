// SPDX-License-Identifier: Apache-2.0
// Levels of ops: the longest path of dependences that leads to each.
//
//   op        a = f(x)   b = g(x)   c = h(a, b)   a += 1
//   level        0          0           1            2       the write waits for the read
//
// An op depends on the last writer of what it touches and, where it writes, on all readers since.
// Ops of one level could run at once; the *operation distance* of two ops is the difference of
// their levels. Linear time.
//
// Source: categorized topological ordering of TFLMS v2 (Le et al., "Automatic GPU memory management
// for large neural models in TensorFlow", ISMM 2019; `topos.py` of its release).
#pragma once

#include <vector>

#include "spillway/planning/analysis/access_table.hpp"

namespace spillway::planning {

struct Levels {
  std::vector<Row> of;  ///< per op
  Row count = 0;        ///< one more than the deepest
};

Levels levels_of(const AccessTable& table);

}  // namespace spillway::planning
