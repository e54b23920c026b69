// SPDX-License-Identifier: Apache-2.0
// TensorFlow's processor, which shows each op that it runs.
#pragma once

#include "op_watcher.hpp"

namespace spillway::tf {

/// Devices that the framework makes from now on are watched. Before its first tensor.
void watch_devices(OpWatcher& watcher);

}  // namespace spillway::tf
